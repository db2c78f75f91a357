// The report for a person at a terminal.
//
// Names that come from the target (comm, paths) are escaped: no byte of theirs can move the
// cursor, colour the screen or break a table. Lines are as wide as asked, but for such a name that
// is longer.
#pragma once

#include "report/report_input.h"
#include "report/writer.h"

namespace heapsnap {

struct TextStyle {
  bool color = false;
  unsigned width = 80;  // columns, at least 60
};

// What `attach` prints: the snapshot, how the target was frozen and for how long, how malloc was
// found, the table of the resident set, the blocks in use and what keeps them, the advice that
// saves the most; last one next step, with the commands to copy.
void print_first_screen(Writer& out, const ReportInput& input, const TextStyle& style);

// All of it: the first screen, then arenas, size classes, largest chunks, what a trim would do,
// mmapped chunks against the allocator's counters, threads' caches, damage, discovery, the freeze.
void print_report(Writer& out, const ReportInput& input, const TextStyle& style);

}  // namespace heapsnap
