// The section about the blocks in use: how large they are, and who allocated them.
#include <fmt/format.h>

#include <bit>

#include "report/number_text.h"
#include "report/old_blocks_report.h"
#include "report/stack_report.h"
#include "report/text_page.h"

namespace heapsnap {

namespace {

using Align = TextTable::Align;

constexpr size_t kMostSizes = 4;
constexpr uint64_t kWorthListing = 1 << 20;  // bytes in use
constexpr uint64_t kLeastSizeShare = 100;    // one part in a hundred of them

std::string block_size_text(const SizeClass& sizes) {
  // Of one block the bytes are its size.
  if (sizes.used.count == 1) return "of " + size_text(sizes.used.bytes);
  const bool is_exact = sizes.end == sizes.begin + SizeClasses::kStep;
  if (is_exact) return fmt::format("of {} B", count_text(sizes.begin));
  const std::string begin = size_text(std::bit_floor(sizes.begin));
  return sizes.end == 0 ? "of " + begin + " or more"
                        : fmt::format("of {} to {}", begin, size_text(sizes.end));
}

void print_block_sizes(TextPage& page) {
  const HeapSummary& summary = page.input.summary;
  const uint64_t used = used_figures(summary.totals).chunks.bytes;
  page.heading("Blocks in use, by size (malloc's header included)");
  TextTable table;
  for (int i = 0; i < 3; ++i) table.add_column("", Align::kRight);
  table.add_column("", Align::kLeft);
  for (size_t i = 0; i < summary.used_sizes.size() && i < kMostSizes; ++i) {
    const SizeClass& sizes = summary.used_sizes[i];
    if (i != 0 && sizes.used.bytes < used / kLeastSizeShare) break;
    table.add_row({percent_text(sizes.used.bytes, used), size_text(sizes.used.bytes),
                   count_text(sizes.used.count, "block", "blocks"), block_size_text(sizes)});
  }
  page.table(table);
}

void print_old_blocks(TextPage& page) {
  constexpr size_t kRoom = 20;  // left of the name, and behind it
  for (const std::string& text : old_blocks_texts(*page.input.stacks, page.width - kRoom)) {
    page.field("", text);
  }
}

void print_owners(TextPage& page) {
  const StackReportInput& stacks = *page.input.stacks;
  page.heading("Blocks in use, by who allocated them");
  const Tally& untracked = stacks.census.without_stack;
  if (untracked.count != 0) {
    page.field("untracked",
               fmt::format("{} ({}{})",
                           live_text(static_cast<double>(untracked.bytes),
                                     static_cast<double>(untracked.count)),
                           untracked_text(page.input.metadata), passed_over_text(stacks.census)));
    print_old_blocks(page);
  }
  page.field("tracked", live_text(stacks.census.live_bytes, stacks.census.live_blocks));
  print_top_stacks(page);
}

}  // namespace

void print_in_use(TextPage& page) {
  const uint64_t used = used_figures(page.input.summary.totals).chunks.bytes;
  const StackReportInput* const stacks = page.input.stacks;
  // Where most blocks have a stack, that says more than their size.
  const bool is_tracked =
      stacks != nullptr && stacks->census.live_bytes >= static_cast<double>(used) / 2;
  if (used >= kWorthListing && !is_tracked) print_block_sizes(page);
  if (stacks != nullptr) print_owners(page);
}

}  // namespace heapsnap
