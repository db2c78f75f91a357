#include "analysis/free_runs.h"

namespace heapsnap {

FreeRuns::FreeRuns(const SnapshotMetadata& metadata, const PageStates& pages, HeapSummary& summary,
                   bool count_blocks)
    : page_size_(checked_page_size(metadata.process.page_size)),
      chunk_struct_(6 * word_size(metadata.process.machine)),
      min_chunk_(4 * word_size(metadata.process.machine)),
      count_blocks_(count_blocks),
      pages_(pages),
      metadata_(metadata),
      summary_(summary) {}

void FreeRuns::give_up(AddressRange range, uint64_t TrimEstimate::*where, ArenaSummary& arena) {
  const PageBytes bytes = pages_.bytes_in(range);
  arena.trim.*where += bytes.resident;
  arena.trim.swapped += bytes.swapped;
  arena.trim.unknown += bytes.unknown;
}

void FreeRuns::on_run(AddressRange run, size_t index, const Mapping* mapping) {
  ArenaSummary& arena = summary_.arenas[index];
  const uint64_t size = run.size();
  arena.largest_free = std::max(arena.largest_free, size);
  if (size < kFirstMmapThreshold) return trim_run(run, arena, mapping);
  const PageBytes pages = pages_.bytes_in(run);
  TrimEstimate trim = arena.trim;
  trim_run(run, arena, mapping);
  trim = arena.trim - trim;
  if (count_blocks_) summary_.large_free.chunks.add(size);
  summary_.large_free.pages += pages;
  summary_.large_runs.add_run(size, metadata_.heap.arenas[index].is_main, count_blocks_, pages,
                              trim);
}

void FreeRuns::trim_run(AddressRange run, ArenaSummary& arena, const Mapping* mapping) {
  const uint64_t size = run.size();
  // mtrim(): chunks of at most ps - 1 + sizeof (struct malloc_chunk) are passed over.
  if (size <= page_size_ - 1 + chunk_struct_) return;
  // MADV_DONTNEED of less than a huge page fails in a hugetlb mapping.
  if (mapping != nullptr && mapping->is_anonymous_hugetlb()) return;
  const Address first = (run.begin + chunk_struct_).align_up(page_size_);
  const Address last = run.end.align_down(page_size_);
  give_up({first, last}, &TrimEstimate::bins, arena);
}

void FreeRuns::on_main_top(AddressRange run, AddressRange top, ArenaSummary& arena,
                           const HeapSegment& segment, const Mapping* mapping) {
  // systrim() moves the break only when it is where malloc put it. [heap] ends at the page after
  // the break.
  const bool at_break = segment.kind == SegmentKind::kBrk && mapping != nullptr &&
                        mapping->range.end == top.end.align_up(page_size_);
  if (!at_break || top.is_empty()) return;
  const Address begin = run.is_empty() ? top.begin : run.begin;
  const uint64_t size = top.end - begin;
  // systrim(pad 0): extra = ALIGN_DOWN (top_size - MINSIZE - 1, pagesize). Since 2.35 the page is
  // a huge one under glibc.malloc.hugetlb=1.
  if (size <= min_chunk_ + 1) return;
  const uint64_t extra = (size - min_chunk_ - 1) & ~(page_size_ - 1);
  const Address first = top.end - extra;
  give_up({first, top.begin}, &TrimEstimate::bins, arena);
  give_up({std::max(first, top.begin), top.end}, &TrimEstimate::top, arena);
}

}  // namespace heapsnap
