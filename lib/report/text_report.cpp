#include "report/text_report.h"

#include "report/text_page.h"

namespace heapsnap {

void print_first_screen(Writer& out, const ReportInput& input, const TextStyle& style) {
  TextPage page(out, input, style);
  print_head(page);
  print_rss_table(page);
  print_in_use(page);
  print_largest_owners(page);
  print_advice(page);
  print_warnings(page);
  print_next_step(page);
}

void print_report(Writer& out, const ReportInput& input, const TextStyle& style) {
  print_first_screen(out, input, style);
  TextPage page(out, input, style);
  print_arenas(page);
  print_free_memory(page);
  print_sizes(page);
  print_largest(page);
  print_thread_caches(page);
  print_accounting(page);
  print_damage(page);
  print_discovery(page);
  print_freeze(page);
}

}  // namespace heapsnap
