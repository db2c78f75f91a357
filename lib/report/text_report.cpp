#include "report/text_report.h"

#include "report/text_page.h"

namespace heapsnap {

namespace {

void print_what_matters(TextPage& page) {
  print_head(page);
  print_rss_table(page);
  print_in_use(page);
  print_largest_owners(page);
  print_advice(page);
  print_warnings(page);
}

}  // namespace

void print_first_screen(Writer& out, const ReportInput& input, const TextStyle& style) {
  TextPage page(out, input, style);
  print_what_matters(page);
  print_next_step(page);
}

void print_report(Writer& out, const ReportInput& input, const TextStyle& style) {
  TextPage page(out, input, style);
  print_what_matters(page);
  print_arenas(page);
  print_free_memory(page);
  print_sizes(page);
  print_largest(page);
  print_thread_caches(page);
  print_accounting(page);
  print_damage(page);
  print_discovery(page);
  print_freeze(page);
  print_next_step(page);
}

}  // namespace heapsnap
