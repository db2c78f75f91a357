// Chunks: the unit in which ptmalloc hands memory out.
//
//   chunk ──►  +--------------------+
//              | prev_size (W)      |   belongs to the chunk before while that one is in use
//              | size | A M P (W)   |   P prev in use, M mmapped, A not of the main arena
//   pointer ─► +--------------------+   what malloc returned: chunk + 2W
//              | ...                |
//   next ────► +--------------------+   chunk + size
//
// W is the word size. Sources: malloc/malloc.c of glibc 2.17 to 2.44.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/address.h"

namespace heapsnap {

// Stored in snapshots: values never change their meaning, new ones are appended.
enum class ChunkState : uint8_t {
  kUsed = 0,
  kTcache = 1,    // free, in a thread's cache
  kFastbin = 2,   // free, not yet coalesced
  kUnsorted = 3,  // free, not yet sorted into a bin
  kSmallbin = 4,
  kLargebin = 5,
  kTop = 6,      // free, the wilderness at the end of an arena's newest segment
  kFence = 7,    // fencepost that closes a segment
  kMmapped = 8,  // used, in a mapping of its own
  kUnknown = 9,  // the walk could not tell (see the corruption records): a chunk whose flags depend
                 // on a damaged header, or all bytes from damage on to where the walk could resume
};
inline constexpr int kChunkStateCount = 10;

const char* to_string(ChunkState state);

constexpr bool is_free(ChunkState state) {
  return state >= ChunkState::kTcache && state <= ChunkState::kTop;
}
constexpr bool is_live(ChunkState state) {
  return state == ChunkState::kUsed || state == ChunkState::kMmapped;
}

// Chunks that lie end to end: chunk i begins where chunk i - 1 ends.
struct ChunkBatch {
  int32_t arena = 0;                   // index into HeapModel::arenas
  uint32_t segment = 0;                // index into HeapModel::segments
  Address begin;                       // of the first chunk's header
  std::span<const uint64_t> sizes;     // whole chunk, header included, flags off
  std::span<const ChunkState> states;  // as many
  // Of a tracked process as many, else none: the id of the stack that allocated each chunk (0: none
  // that is known), and how many of its usable bytes nobody asked for (31: that many or more, or
  // not known).
  std::span<const uint32_t> stacks = {};
  std::span<const uint8_t> slacks = {};
};

// A chunk in a mapping of its own. Its header may have moved away from the mapping's begin
// (memalign, mremap).
struct MmappedChunk {
  Address mapping_begin;
  Address chunk;                            // header
  uint64_t total = 0;                       // bytes of the mapping, what mp_.mmapped_mem counts
  uint64_t size = 0;                        // chunk size as the header gives it, flags off
  uint64_t usable = 0;                      // what malloc_usable_size says
  ChunkState state = ChunkState::kMmapped;  // or kTcache (2.43 and later)
  uint32_t instance = 0;                    // index into HeapModel::instances
  uint32_t stack = 0;                       // of a tracked process, as in ChunkBatch
  uint8_t slack = 0;
  bool operator==(const MmappedChunk&) const = default;
};

// Damage found in a heap. `where` is the first address that does not make sense.
struct Corruption {
  Address where;
  int32_t arena = -1;
  int64_t segment = -1;
  std::string what;  // one sentence with the value found
  bool operator==(const Corruption&) const = default;
};

// Receives a walk in ascending order of address within each segment. Spans live only during the
// call.
class ChunkSink {
 public:
  virtual ~ChunkSink() = default;
  virtual void on_batch(const ChunkBatch& batch) = 0;
  virtual void on_mmapped(const MmappedChunk& chunk) = 0;
};

}  // namespace heapsnap
