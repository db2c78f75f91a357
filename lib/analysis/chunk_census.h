// Counts chunks by size and keeps the largest: what does not need to know about pages.
#pragma once

#include <array>
#include <vector>

#include "analysis/heap_summary.h"
#include "analysis/size_classes.h"
#include "heap/chunk.h"

namespace heapsnap {

// The N largest of any number of chunks, in memory for N.
class LargestChunks {
 public:
  static constexpr size_t kCount = 20;

  // No chunk of this size or less would be kept.
  uint64_t threshold() const { return threshold_; }
  void add(const LargeChunk& chunk);
  std::vector<LargeChunk> sorted() &&;  // largest first, then by address

 private:
  std::vector<LargeChunk> heap_;  // smallest in front
  uint64_t threshold_ = 0;
};

class ChunkCensus final : public ChunkSink {
 public:
  // `word`: bytes of the target's pointers. `large_runs` learns the sizes of large used chunks.
  ChunkCensus(unsigned word, LargeRunCensus& large_runs)
      : header_(2 * word), large_runs_(large_runs) {}

  void on_batch(const ChunkBatch& batch) override;
  void on_mmapped(const MmappedChunk& chunk) override;
  // Gives size classes, largest chunks and large_used.
  void finish(HeapSummary& summary) &&;

 private:
  // What needs more than counting: a large chunk.
  void note_large(const LargeChunk& chunk, SizeClasses::Kind kind);

  unsigned header_;
  SizeClasses classes_;
  std::array<LargestChunks, 3> largest_;  // by SizeClasses::Kind
  // Chunks of at most this size are not large, by kind.
  std::array<uint64_t, 3> small_ = {0, 0, UINT64_MAX};
  Tally large_used_;
  LargeRunCensus& large_runs_;
};

}  // namespace heapsnap
