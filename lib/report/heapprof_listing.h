// The listing that heapprof's decoder prints of a core: call stacks by live bytes,
//
//   45% 6400 [100, 100, 6200]
//     0x401136 make_node (tree.c:12)
//     0x40117b main (tree.c:40)
//
// share of the live bytes, their number, the sizes of the blocks (of more than are asked for, the
// smallest, and "... and 1234 more"), and a line for each frame: its
// address, then function, file and line, or module and offset where they are not known. Functions
// that were inlined have lines of their own with the address of the call that holds them.
#pragma once

#include "report/stack_report.h"

namespace heapsnap {

// `most_sizes`: that are listed of one stack.
void print_heapprof_listing(Writer& out, const StackReportInput& input, uint64_t most_sizes);

}  // namespace heapsnap
