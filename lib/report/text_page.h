// The layout that all sections of the text report share.
#pragma once

#include <string>
#include <string_view>

#include "report/report_input.h"
#include "report/terminal_text.h"
#include "report/text_report.h"
#include "report/text_table.h"
#include "report/writer.h"

namespace heapsnap {

// Text handed in here is harmless already: literals, numbers, and what printable() made.
class TextPage {
 public:
  TextPage(Writer& out, const ReportInput& input, const TextStyle& style)
      : out(out), input(input), width(style.width < 60 ? 60 : style.width), ink(style.color) {}

  // A blank line and a title.
  void heading(std::string_view title);
  // "  label    text", the text broken into lines that stay right of the label.
  void field(std::string_view label, std::string_view text);
  // Indented, broken into lines.
  void sentence(std::string_view text);
  void table(const TextTable& rows) { rows.print(out, ink, width); }

  Writer& out;
  const ReportInput& input;
  const size_t width;
  const Ink ink;
};

// The sections, in the order of the report; each prints nothing when it has nothing to say.
// First screen:
void print_head(TextPage& page);
void print_rss_table(TextPage& page);
void print_advice(TextPage& page);
void print_warnings(TextPage& page);
void print_in_use(TextPage& page);
void print_largest_owners(TextPage& page);
void print_top_stacks(TextPage& page);  // a part of the section above
void print_next_step(TextPage& page);
// The heap:
void print_arenas(TextPage& page);
void print_free_memory(TextPage& page);
void print_sizes(TextPage& page);
void print_largest(TextPage& page);
// The allocator and how it was read:
void print_thread_caches(TextPage& page);
void print_accounting(TextPage& page);
void print_damage(TextPage& page);
void print_discovery(TextPage& page);
void print_freeze(TextPage& page);

}  // namespace heapsnap
