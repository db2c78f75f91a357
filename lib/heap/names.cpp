#include "heap/chunk.h"
#include "heap/heap_model.h"

namespace heapsnap {

const char* to_string(ChunkState state) {
  switch (state) {
    case ChunkState::kUsed: return "used";
    case ChunkState::kTcache: return "tcache";
    case ChunkState::kFastbin: return "fastbin";
    case ChunkState::kUnsorted: return "unsorted";
    case ChunkState::kSmallbin: return "smallbin";
    case ChunkState::kLargebin: return "largebin";
    case ChunkState::kTop: return "top";
    case ChunkState::kFence: return "fence";
    case ChunkState::kMmapped: return "mmapped";
    case ChunkState::kUnknown: return "unknown";
  }
  return "unknown";
}

const char* to_string(DiscoveryStrategy strategy) {
  switch (strategy) {
    case DiscoveryStrategy::kNone: return "none";
    case DiscoveryStrategy::kDebugSymbol: return "debug-symbol";
    case DiscoveryStrategy::kRelocation: return "relocation";
    case DiscoveryStrategy::kDisassembly: return "disassembly";
    case DiscoveryStrategy::kStructuralScan: return "structural-scan";
  }
  return "unknown";
}

}  // namespace heapsnap
