// The chunk that an address lies in.
//
// While a chunk is in use, its block reaches into the first word of the chunk behind it (prev_size,
// see heap/chunk.h), so an address in that word belongs to the block:
//
//   chunk ──► | prev_size | size | block .................. | <── next chunk
//                                 ^ pointer                 | prev_size | size | ...
//                                 <────────── usable ───────────────────>
#pragma once

#include <cstdint>
#include <optional>

#include "analysis/snapshot_streams.h"

namespace heapsnap {

struct FoundChunk {
  AddressRange range;   // header included; of an mmapped chunk its mapping
  Address pointer;      // what malloc returned; of a stretch that could not be walked its begin
  uint64_t size = 0;    // of the chunk, header included
  uint64_t usable = 0;  // bytes from `pointer` on that are the chunk's
  ChunkState state = ChunkState::kUnknown;
  int32_t arena = -1;  // -1: in a mapping of its own
  uint32_t stack = 0;  // of a tracked process, as in ChunkBatch
  uint8_t slack = 0;
  bool is_thread_cache = false;  // malloc made it for itself: a thread's tcache
};

// Reads all chunks. None: no chunk that the snapshot knows holds `at`.
std::optional<FoundChunk> find_chunk(const SnapshotStreams& streams, Address at);

}  // namespace heapsnap
