// The totals over all chunks of a snapshot.
//
// Made in one pass over the chunks, joined with the page states and the mappings. Memory stays
// bounded: page states are taken in windows of some million runs, and a heap so scattered that it
// needs a second window costs a second pass instead of more memory.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "analysis/large_runs.h"
#include "analysis/page_bytes.h"
#include "analysis/page_states.h"
#include "analysis/size_classes.h"
#include "analysis/snapshot_streams.h"
#include "analysis/trim_estimate.h"
#include "heap/chunk.h"
#include "snapshot/snapshot_reader.h"

namespace heapsnap {

// The chunks of one state: how many, and where their bytes are.
struct StateFigures {
  Tally chunks;
  PageBytes pages;  // adds up to chunks.bytes

  StateFigures& operator+=(const StateFigures& other) {
    chunks += other.chunks;
    pages += other.pages;
    return *this;
  }
  bool operator==(const StateFigures&) const = default;
};
using FiguresByState = std::array<StateFigures, kChunkStateCount>;

inline const StateFigures& figures_of(const FiguresByState& states, ChunkState state) {
  return states[static_cast<size_t>(state)];
}

// Sums over states. Bins are the unsorted, small and large ones.
StateFigures used_figures(const FiguresByState& states);  // kUsed and kMmapped
StateFigures free_figures(const FiguresByState& states);  // tcache, fastbin, bins, top
StateFigures bin_figures(const FiguresByState& states);
StateFigures idle_figures(const FiguresByState& states);  // fastbins and bins
StateFigures all_figures(const FiguresByState& states);

struct ArenaSummary {
  FiguresByState states;
  // Allocator's own memory outside chunks (heap_info, malloc_state of a thread arena) and the
  // chunks that hold a tcache_perthread_struct (counted in states[kUsed], too).
  PageBytes own;
  TrimEstimate trim;
  // The largest block that consolidation could make of fastbin and bin chunks; top not included.
  uint64_t largest_free = 0;

  // Free bytes outside top, as a share of all bytes outside top: 0 none, 1 all. What the arena
  // holds without any use for it, whether resident or not.
  double free_share() const;
  // 1 - largest free block / free bytes in fastbins and bins: 0 when all of it is one block.
  double scatter() const;
};

struct LargeChunk {
  Address pointer;  // what malloc returned
  uint64_t size = 0;
  ChunkState state = ChunkState::kUsed;
  int32_t arena = 0;  // -1: mmapped
  bool operator==(const LargeChunk&) const = default;
};

// Parts of a heap as its memory is explained to a person.
enum class HeapShare : uint8_t {
  kProgram = 0,   // used chunks without their headers
  kMmapped = 1,   // the same of chunks in mappings of their own
  kOverhead = 2,  // headers, fences, heap_info, malloc_state, tcache structs, ends of mmaps
  kTcache = 3,    // free, in a thread's cache
  kFastbin = 4,   // free
  kBins = 5,      // free, in the unsorted, small and large bins
  kTop = 6,       // free, at an arena's end
  kUnwalked = 7,  // of a heap, but the walk could not tell what: see the corruption records
};
inline constexpr int kHeapShareCount = 8;
using HeapShares = std::array<PageBytes, kHeapShareCount>;

struct HeapSummary {
  FiguresByState totals;                // all arenas and all mmapped chunks
  std::vector<ArenaSummary> arenas;     // as HeapModel::arenas
  std::vector<Tally> mmapped;           // as HeapModel::instances: mappings, against mp_'s counters
  std::vector<SizeClass> size_classes;  // by powers of two
  std::vector<SizeClass> common_sizes;  // exact sizes with most used bytes, largest first
  std::vector<SizeClass> used_sizes;    // all blocks in use by exact sizes and ranges, the same
  std::vector<LargeChunk> largest_used;  // largest first
  std::vector<LargeChunk> largest_free;  // the same, without tops
  // Blocks of kFirstMmapThreshold and more: free ones in bins, after
  // consolidation, and used ones that were not mmapped.
  StateFigures large_free;
  Tally large_used;
  LargeRunCensus large_runs;
  PageBytes headers;         // a word for each used chunk of an arena
  PageBytes tcache_structs;  // their chunks
  TrimEstimate trim;
  FreeKept kept;
  bool pages_known = false;        // some page of a heap had a known state
  std::vector<HeapShares> shares;  // as SnapshotMetadata::mappings
};

// Throws Error{kBadInput} when chunks and metadata do not fit together (an arena that is not
// there, chunks that wrap around the address space). `max_page_runs` bounds the memory; a test
// makes it small.
HeapSummary summarize(const SnapshotStreams& streams, size_t max_page_runs = PageStates::kMaxRuns);
HeapSummary summarize(const SnapshotReader& reader);

}  // namespace heapsnap
