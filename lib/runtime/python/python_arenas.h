// Where the arenas of Python's own allocator (obmalloc) are.
//
//   arenas ──►  +---------+---------+-- - --+
//               | arena 0 | arena 1 |       |   struct arena_object, 16, or 32, ...
//               +----|----+---------+-- - --+
//                    ▼ address
//                    +------+------+-- - --+------+
//                    | pool | pool |       |      |   1 MiB; a pool is 16 KiB, aligned to that
//                    +------+------+-- - --+------+
//                                   ▲ pool_address: from here on no pool was ever made
//
// The variable `arenas` has no exported symbol. It is found by what it points to: each word of the
// module's data is tried, and accepted only if all structures of the array fit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/python/python_place.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

struct PythonArena {
  uint32_t index = 0;       // in the array: what its pools say
  AddressRange range;       // all of it
  AddressRange pools;       // those that were made; aligned to their size
  uint32_t free_pools = 0;  // made or not
  uint32_t total_pools = 0;
};

struct PythonArenas {
  std::vector<PythonArena> all;  // ascending by address
  std::string why_not;           // one clause: why they could not be told; empty: they are all
};

// Without arenas where Python takes its memory from elsewhere (PYTHONMALLOC=malloc).
PythonArenas find_python_arenas(Target& target, const PythonPlace& place);

}  // namespace heapsnap
