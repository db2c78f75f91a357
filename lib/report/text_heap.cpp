// The sections about the heap itself: arenas, free memory, sizes, large chunks.
#include <fmt/format.h>

#include "report/number_text.h"
#include "report/text_page.h"

namespace heapsnap {

namespace {

using Align = TextTable::Align;

constexpr size_t kWideEnoughForAddresses = 96;

std::string arena_name(const ReportInput& input, int32_t arena) {
  if (arena < 0) return "mmapped";
  const bool is_main = input.metadata.heap.arenas[static_cast<size_t>(arena)].is_main;
  return fmt::format("{}{}", arena, is_main ? " main" : "");
}

std::string size_range_text(const SizeClass& sizes) {
  if (sizes.end == 0) return short_size_text(sizes.begin) + " and more";
  return short_size_text(sizes.begin) + " - " + short_size_text(sizes.end);
}

void print_large(TextPage& page, const std::string& title, const std::vector<LargeChunk>& chunks) {
  if (chunks.empty()) return;
  page.heading(title);
  TextTable table;
  table.add_column("pointer", Align::kLeft);
  table.add_column("size", Align::kRight);
  table.add_column("bytes", Align::kRight);
  table.add_column("state", Align::kLeft);
  table.add_column("arena", Align::kLeft);
  for (const LargeChunk& chunk : chunks) {
    table.add_row({address_text(chunk.pointer), size_text(chunk.size), count_text(chunk.size),
                   to_string(chunk.state), arena_name(page.input, chunk.arena)});
  }
  page.table(table);
}

}  // namespace

void print_arenas(TextPage& page) {
  const HeapModel& heap = page.input.metadata.heap;
  if (heap.arenas.empty()) return;
  page.heading("Arenas (K, M, G: KiB, MiB, GiB)");
  const bool has_addresses = page.width >= kWideEnoughForAddresses;
  TextTable table;
  table.add_column("arena", Align::kLeft);
  if (has_addresses) table.add_column("address", Align::kLeft);
  for (const char* title :
       {"system", "used", "tcache", "bins", "top", "free", "resident", "trim"}) {
    table.add_column(title, Align::kRight);
  }
  for (size_t i = 0; i < heap.arenas.size(); ++i) {
    const ArenaSummary& arena = page.input.summary.arenas[i];
    const StateFigures all = all_figures(arena.states);
    std::vector<std::string> row = {arena_name(page.input, static_cast<int32_t>(i))};
    if (has_addresses) row.push_back(address_text(heap.arenas[i].address));
    for (const uint64_t bytes : {heap.arenas[i].system_mem, used_figures(arena.states).chunks.bytes,
                                 figures_of(arena.states, ChunkState::kTcache).chunks.bytes,
                                 idle_figures(arena.states).chunks.bytes,
                                 figures_of(arena.states, ChunkState::kTop).chunks.bytes}) {
      row.push_back(short_size_text(bytes));
    }
    row.push_back(percent_text(arena.free_share()));
    row.push_back(page.input.summary.pages_known ? short_size_text(all.pages.resident) : "?");
    row.push_back(page.input.summary.pages_known ? short_size_text(arena.trim.resident()) : "?");
    table.add_row(std::move(row));
  }
  page.table(table);
  page.sentence(
      "bins includes fastbins; free is the free share of all below top; trim is what "
      "malloc_trim(0) would give back.");
}

void print_free_memory(TextPage& page) {
  const HeapSummary& summary = page.input.summary;
  const uint64_t free = free_figures(summary.totals).chunks.bytes;
  if (free == 0) return;
  page.heading("Free memory in the heaps: " + size_text(free));
  TextTable table;
  table.add_column("", Align::kLeft);
  table.add_column("chunks", Align::kRight);
  table.add_column("bytes", Align::kRight);
  table.add_column("resident", Align::kRight);
  table.add_column("in swap", Align::kRight);
  for (int i = 0; i < kChunkStateCount; ++i) {
    const ChunkState state = static_cast<ChunkState>(i);
    const StateFigures& figures = figures_of(summary.totals, state);
    if (!is_free(state) || figures.chunks.count == 0) continue;
    table.add_row({to_string(state), count_text(figures.chunks.count),
                   size_text(figures.chunks.bytes),
                   summary.pages_known ? size_text(figures.pages.resident) : "?",
                   summary.pages_known ? size_text(figures.pages.swapped) : "?"});
  }
  page.table(table);
  if (!summary.pages_known) {
    page.sentence(
        fmt::format("Which pages are resident is not known. malloc_trim(0) would give back at "
                    "most {}.",
                    size_text(summary.trim.unknown)));
    return;
  }
  page.out.write("\n");
  TextTable trim;
  trim.add_column("the resident part", Align::kLeft);
  trim.add_column("", Align::kRight);
  const auto add = [&trim](const char* text, uint64_t bytes) {
    if (bytes != 0) trim.add_row({text, size_text(bytes)});
  };
  add("given back by malloc_trim(0), from bins", summary.trim.bins);
  add("given back by malloc_trim(0), from top", summary.trim.top);
  add("kept in thread caches", summary.kept.tcache);
  add("kept in pages shared with used chunks", summary.kept.bins);
  add("kept in top of the main arena", summary.kept.main_top);
  add("kept in tops of other arenas", summary.kept.other_tops);
  page.table(trim);
  if (summary.trim.swapped != 0) {
    page.sentence(
        fmt::format("malloc_trim(0) would also free {} of swap.", size_text(summary.trim.swapped)));
  }
}

void print_sizes(TextPage& page) {
  const HeapSummary& summary = page.input.summary;
  if (summary.size_classes.empty()) return;
  const uint64_t used = used_figures(summary.totals).chunks.bytes;
  page.heading("Chunks by size");
  TextTable table;
  table.add_column("size", Align::kLeft);
  for (const char* title : {"used", "bytes", "share", "free", "bytes"}) {
    table.add_column(title, Align::kRight);
  }
  for (const SizeClass& sizes : summary.size_classes) {
    table.add_row({size_range_text(sizes), count_text(sizes.used.count),
                   size_text(sizes.used.bytes), percent_text(sizes.used.bytes, used),
                   count_text(sizes.free.count), size_text(sizes.free.bytes)});
  }
  page.table(table);

  if (summary.common_sizes.empty()) return;
  page.heading("Sizes up to 1 KiB with the most used bytes");
  TextTable common;
  common.add_column("size", Align::kRight);
  for (const char* title : {"used", "bytes", "share", "free"}) {
    common.add_column(title, Align::kRight);
  }
  for (const SizeClass& size : summary.common_sizes) {
    common.add_row({count_text(size.begin), count_text(size.used.count), size_text(size.used.bytes),
                    percent_text(size.used.bytes, used), count_text(size.free.count)});
  }
  page.table(common);
}

void print_largest(TextPage& page) {
  print_large(page, "Largest chunks in use", page.input.summary.largest_used);
  print_large(page, "Largest free chunks", page.input.summary.largest_free);
}

}  // namespace heapsnap
