// Joins chunks with the states of the pages under them.
//
// Both come in ascending order, so this is a merge: as long as chunks lie within one page run and
// one mapping (and most do), a chunk costs one addition to a small table. Where a chunk crosses a
// border it is cut into pieces.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "analysis/free_runs.h"
#include "analysis/heap_summary.h"
#include "analysis/page_states.h"
#include "heap/chunk.h"

namespace heapsnap {

class ChunkResidency final : public ChunkSink {
 public:
  // Adds to `summary` what lies in `pages`; with `count_chunks` also every chunk, wherever it lies.
  // All arguments must outlive this.
  ChunkResidency(const SnapshotMetadata& metadata, const PageStates& pages, HeapSummary& summary,
                 bool count_chunks);

  // Throw Error{kBadInput} for an arena, segment or instance that is not there, and for chunks that
  // reach past the end of the address space.
  void on_batch(const ChunkBatch& batch) override;
  void on_mmapped(const MmappedChunk& chunk) override;
  // To be called once after the last chunk.
  void finish();

 private:
  // What a byte is: ChunkState's values, and after them what is no chunk or a special one.
  static constexpr unsigned kTcacheStruct = 10;  // a used chunk that holds a thread's cache
  static constexpr unsigned kArenaHead = 11;     // heap_info, malloc_state
  static constexpr unsigned kMmapEnds = 12;      // of an mmapped chunk, all but the usable bytes
  static constexpr unsigned kHole = 13;          // in a segment, but in no chunk
  static constexpr unsigned kRows = 14;

  static constexpr int64_t kNoSegment = -1;
  static constexpr size_t kNoMapping = SIZE_MAX;

  void enter_segment(const ChunkBatch& batch);
  void leave_segment();
  // `run` is followed by something in `row` that is no part of it and ends at `end`.
  void end_run(AddressRange run, unsigned row, Address end);
  ArenaSummary& arena_summary() { return summary_.arenas[static_cast<size_t>(arena_)]; }
  void set_arena(int32_t arena);
  // Makes the piece that holds `address` the current one.
  void place(Address address);
  void find_mapping(Address address);
  // Adds a range that may cross borders; its first piece counts as `count` chunks.
  void add_range(unsigned row, AddressRange range, uint64_t count);
  // The same for a chunk; leaves the piece that holds its last byte the current one.
  void add_crossing_chunk(unsigned row, Address chunk, uint64_t size);
  // Moves the table into the summary.
  void fold();
  void fold_row(unsigned row, FiguresByState& states, PageBytes& own, HeapShares* shares);

  const SnapshotMetadata& metadata_;
  HeapSummary& summary_;
  bool count_chunks_;
  unsigned word_;
  PageStates::Cursor pages_;
  FreeRuns runs_;
  std::vector<Address> tcache_chunks_;  // ascending
  std::vector<bool> segment_seen_;
  FiguresByState mmapped_figures_{};

  // Of the current piece: same page state, same mapping, same arena.
  std::array<std::array<Tally, kRows>, PageStates::kColumns> table_{};
  unsigned column_ = PageStates::kOutside;
  Address piece_end_;
  Address limit_;  // a chunk that ends at or before it needs no look
  AddressRange mapping_range_;
  size_t mapping_ = kNoMapping;
  int32_t arena_ = -1;
  int64_t segment_ = kNoSegment;
  Address next_;       // where the next chunk of this segment begins
  Address run_begin_;  // of the free chunks that end at next_
};

}  // namespace heapsnap
