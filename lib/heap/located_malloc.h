// A malloc of a target, found and verified (discovery/malloc_discovery.h): what a walk begins with.
#pragma once

#include <cstdint>
#include <optional>

#include "heap/heap_model.h"
#include "heap/malloc_layout.h"

namespace heapsnap {

struct LocatedMalloc {
  MallocInstance instance;
  MallocLayout layout;
  std::optional<int64_t> tls_offset;  // from the thread pointer; may be negative
  uint64_t tls_size = 0;
  std::optional<uint64_t> tcache_in_tls;  // places in the block, where symbols tell them
  std::optional<uint64_t> thread_arena_in_tls;
};

}  // namespace heapsnap
