#include "analysis/chunk_residency.h"

#include <algorithm>

#include "base/error.h"

namespace heapsnap {

namespace {

constexpr unsigned row_of(ChunkState state) {
  return std::min(static_cast<unsigned>(state), static_cast<unsigned>(ChunkState::kUnknown));
}

constexpr unsigned kTopRow = row_of(ChunkState::kTop);

// Rows whose chunks malloc_consolidate() would merge with their neighbours.
constexpr bool is_mergeable(unsigned row) {
  return row >= row_of(ChunkState::kFastbin) && row <= row_of(ChunkState::kLargebin);
}

HeapShare share_of(ChunkState state) {
  switch (state) {
    case ChunkState::kUsed: return HeapShare::kProgram;
    case ChunkState::kTcache: return HeapShare::kTcache;
    case ChunkState::kFastbin: return HeapShare::kFastbin;
    case ChunkState::kUnsorted:
    case ChunkState::kSmallbin:
    case ChunkState::kLargebin: return HeapShare::kBins;
    case ChunkState::kTop: return HeapShare::kTop;
    case ChunkState::kFence: return HeapShare::kOverhead;
    case ChunkState::kMmapped: return HeapShare::kMmapped;
    case ChunkState::kUnknown: return HeapShare::kUnwalked;
  }
  return HeapShare::kUnwalked;
}

[[noreturn]] void fail(const std::string& why) {
  throw Error(ErrorKind::kBadInput, "the chunks of a snapshot do not fit its metadata", why);
}

// heap_info and, in an arena's first heap, malloc_state: 2.2 KiB in all versions.
constexpr uint64_t kMaxArenaHead = 4096;

}  // namespace

ChunkResidency::ChunkResidency(const SnapshotMetadata& metadata, const PageStates& pages,
                               HeapSummary& summary, bool count_chunks)
    : metadata_(metadata),
      summary_(summary),
      count_chunks_(count_chunks),
      word_(word_size(metadata.process.machine)),
      pages_(pages),
      runs_(metadata, pages, summary, count_chunks),
      segment_seen_(metadata.heap.segments.size()) {
  for (const ThreadCache& cache : metadata.heap.thread_caches) {
    if (!cache.tcache.is_null()) tcache_chunks_.push_back(cache.tcache - 2 * word_);
  }
  std::sort(tcache_chunks_.begin(), tcache_chunks_.end());
  find_mapping(Address());
}

void ChunkResidency::find_mapping(Address address) {
  const auto& mappings = metadata_.mappings;
  const auto after =
      std::upper_bound(mappings.begin(), mappings.end(), address,
                       [](Address a, const Mapping& mapping) { return a < mapping.range.begin; });
  if (after != mappings.begin() && std::prev(after)->range.contains(address)) {
    mapping_ = static_cast<size_t>(after - mappings.begin()) - 1;
    mapping_range_ = mappings[mapping_].range;
    return;
  }
  mapping_ = kNoMapping;
  mapping_range_.begin = after == mappings.begin() ? Address() : std::prev(after)->range.end;
  mapping_range_.end = after == mappings.end() ? Address(UINT64_MAX) : after->range.begin;
}

void ChunkResidency::place(Address address) {
  if (!mapping_range_.contains(address)) {
    fold();
    find_mapping(address);
  }
  const PageStates::Piece piece = pages_.at(address);
  column_ = piece.column;
  piece_end_ = std::min(piece.range.end, mapping_range_.end);
  limit_ = piece_end_;
  const auto special = std::lower_bound(tcache_chunks_.begin(), tcache_chunks_.end(), address);
  if (special != tcache_chunks_.end()) limit_ = std::min(limit_, *special + 1);
}

void ChunkResidency::add_range(unsigned row, AddressRange range, uint64_t count) {
  while (range.begin < range.end) {
    place(range.begin);
    // No piece holds the last address of all, nor one where mappings are out of order.
    const Address end = piece_end_ > range.begin ? std::min(range.end, piece_end_) : range.end;
    Tally& cell = table_[column_][row];
    cell.count += count;
    cell.bytes += end - range.begin;
    count = 0;
    range.begin = end;
  }
}

void ChunkResidency::add_crossing_chunk(unsigned row, Address chunk, uint64_t size) {
  if (size > UINT64_MAX - chunk.value()) fail("a chunk reaches past the end of the address space");
  const bool is_tcache = row == row_of(ChunkState::kUsed) &&
                         std::binary_search(tcache_chunks_.begin(), tcache_chunks_.end(), chunk);
  add_range(is_tcache ? kTcacheStruct : row, {chunk, chunk + size}, 1);
}

void ChunkResidency::set_arena(int32_t arena) {
  if (arena == arena_) return;
  fold();
  arena_ = arena;
}

void ChunkResidency::on_batch(const ChunkBatch& batch) {
  if (batch.sizes.size() != batch.states.size()) fail("sizes and states differ in number");
  if (batch.arena < 0 || static_cast<size_t>(batch.arena) >= metadata_.heap.arenas.size()) {
    fail("arena " + std::to_string(batch.arena) + " is not there");
  }
  if (batch.segment >= metadata_.heap.segments.size()) {
    fail("segment " + std::to_string(batch.segment) + " is not there");
  }
  if (segment_ != batch.segment) {
    leave_segment();
    set_arena(batch.arena);
    enter_segment(batch);
  } else if (batch.begin != next_ || batch.arena != arena_) {
    end_run({run_begin_, next_}, kHole, next_);
    add_range(kHole, {next_, batch.begin}, 0);
    set_arena(batch.arena);
    run_begin_ = batch.begin;
  }

  Address chunk = batch.begin;
  place(chunk);
  // Copies, so that the loop need not load what only its rare branches change.
  Address limit = limit_;
  Tally* column = table_[column_].data();
  Address run_begin = run_begin_;
  uint64_t ignorable = runs_.ignorable_size(arena_summary());
  for (size_t i = 0; i < batch.sizes.size(); ++i) {
    const uint64_t size = batch.sizes[i];
    const unsigned row = row_of(batch.states[i]);
    const Address end = chunk + size;
    if (end > limit || end < chunk) [[unlikely]] {
      add_crossing_chunk(row, chunk, size);
      limit = limit_;
      column = table_[column_].data();
    } else {
      column[row].add(size);
    }
    const bool ends_run = !is_mergeable(row);
    if (ends_run & ((row == kTopRow) | (chunk - run_begin > ignorable))) [[unlikely]] {
      end_run({run_begin, chunk}, row, end);
      ignorable = runs_.ignorable_size(arena_summary());
    }
    run_begin = ends_run ? end : run_begin;
    chunk = end;
  }
  run_begin_ = run_begin;
  next_ = chunk;
}

void ChunkResidency::end_run(AddressRange run, unsigned row, Address end) {
  // The current mapping is that of the chunk behind the run: of the same segment.
  const Mapping* mapping = mapping_ == kNoMapping ? nullptr : &metadata_.mappings[mapping_];
  if (row != kTopRow) {
    if (!run.is_empty()) runs_.on_run(run, static_cast<size_t>(arena_), mapping);
  } else if (metadata_.heap.arenas[static_cast<size_t>(arena_)].is_main) {
    runs_.on_main_top(run, {run.end, end}, arena_summary(),
                      metadata_.heap.segments[static_cast<size_t>(segment_)], mapping);
  }
}

void ChunkResidency::enter_segment(const ChunkBatch& batch) {
  segment_ = batch.segment;
  segment_seen_[batch.segment] = true;
  const HeapSegment& segment = metadata_.heap.segments[batch.segment];
  if (segment.kind == SegmentKind::kThreadHeap && segment.system_bytes > segment.range.size() &&
      segment.system_bytes - segment.range.size() <= kMaxArenaHead) {
    add_range(kArenaHead, {segment.range.end - segment.system_bytes, segment.range.begin}, 0);
  }
  add_range(kHole, {segment.range.begin, batch.begin}, 0);
  run_begin_ = batch.begin;
}

void ChunkResidency::leave_segment() {
  if (segment_ == kNoSegment) return;
  end_run({run_begin_, next_}, kHole, next_);
  add_range(kHole, {next_, metadata_.heap.segments[static_cast<size_t>(segment_)].range.end}, 0);
  segment_ = kNoSegment;
}

void ChunkResidency::on_mmapped(const MmappedChunk& chunk) {
  leave_segment();
  if (chunk.instance >= summary_.mmapped.size()) {
    fail("malloc " + std::to_string(chunk.instance) + " is not there");
  }
  if (chunk.total > UINT64_MAX - chunk.mapping_begin.value()) {
    fail("a mapping reaches past the end of the address space");
  }
  set_arena(-1);
  if (count_chunks_) summary_.mmapped[chunk.instance].add(chunk.total);
  const AddressRange whole{chunk.mapping_begin, chunk.mapping_begin + chunk.total};
  const unsigned row = row_of(chunk.state);
  if (chunk.state != ChunkState::kMmapped) {
    add_range(row, whole, 1);
    return;
  }
  const Address pointer = std::clamp(chunk.chunk + 2 * word_, whole.begin, whole.end);
  const Address end = pointer + std::min(chunk.usable, whole.end - pointer);
  add_range(kMmapEnds, {whole.begin, pointer}, 1);
  add_range(row, {pointer, end}, 0);
  add_range(kMmapEnds, {end, whole.end}, 0);
}

void ChunkResidency::finish() {
  leave_segment();
  for (size_t i = 0; i < segment_seen_.size(); ++i) {
    if (segment_seen_[i]) continue;
    set_arena(-1);
    add_range(kHole, metadata_.heap.segments[i].range, 0);
  }
  fold();
  for (size_t state = 0; state < mmapped_figures_.size(); ++state) {
    summary_.totals[state] += mmapped_figures_[state];
  }
  mmapped_figures_ = {};
}

void ChunkResidency::fold() {
  HeapShares* shares = mapping_ == kNoMapping ? nullptr : &summary_.shares[mapping_];
  PageBytes no_arena;
  for (unsigned row = 0; row < kRows; ++row) {
    if (arena_ >= 0) {
      ArenaSummary& arena = summary_.arenas[static_cast<size_t>(arena_)];
      fold_row(row, arena.states, arena.own, shares);
    } else {
      fold_row(row, mmapped_figures_, no_arena, shares);
    }
  }
  table_ = {};
}

void ChunkResidency::fold_row(unsigned row, FiguresByState& states, PageBytes& own,
                              HeapShares* shares) {
  StateFigures figures;
  PageBytes headers;
  for (unsigned column = 0; column < PageStates::kColumns; ++column) {
    const Tally& cell = table_[column][row];
    if (count_chunks_) figures.chunks += cell;
    if (column == PageStates::kOutside) continue;
    figures.pages.add(static_cast<PageState>(column), cell.bytes);
    // A chunk's size word lies in the page in which the chunk begins: chunks are aligned to 2W.
    headers.add(static_cast<PageState>(column), std::min(cell.bytes, cell.count * word_));
  }
  const auto give = [shares](HeapShare share, const PageBytes& bytes) {
    if (shares != nullptr) (*shares)[static_cast<size_t>(share)] += bytes;
  };
  switch (row) {
    case kTcacheStruct:
      states[row_of(ChunkState::kUsed)] += figures;
      summary_.tcache_structs += figures.pages;
      own += figures.pages;
      give(HeapShare::kOverhead, figures.pages);
      return;
    case kArenaHead:
      own += figures.pages;
      give(HeapShare::kOverhead, figures.pages);
      return;
    case kMmapEnds:
      states[row_of(ChunkState::kMmapped)] += figures;
      give(HeapShare::kOverhead, figures.pages);
      return;
    case kHole: give(HeapShare::kUnwalked, figures.pages); return;
    default: break;
  }
  const ChunkState state = static_cast<ChunkState>(row);
  states[row] += figures;
  if (state == ChunkState::kUsed) {
    summary_.headers += headers;
    give(HeapShare::kOverhead, headers);
    figures.pages -= headers;
  }
  give(share_of(state), figures.pages);
}

}  // namespace heapsnap
