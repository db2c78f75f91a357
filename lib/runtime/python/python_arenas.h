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
// Up to 3.11 `arenas` is a variable without an exported symbol. It is found by what it points to:
// each word of the module's data is tried, and accepted only if all structures of the array fit.
//
// Since 3.12 it is in the state of an interpreter, each of which has an array of its own, or the
// one of the main interpreter:
//
//   main interpreter    | ... | obmalloc | ...    since 3.13 a pointer: others may have the same
//                                   |
//                                   v
//   _obmalloc_state     | pools | arenas, maxarenas, ... |
//
// In a build whose states are not known, the main interpreter's array is searched for as before,
// and where its state leads there is where those of others do.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/python/python_place.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

struct PythonArena {
  uint32_t index = 0;       // in its array: what its pools say
  AddressRange range;       // all of it
  AddressRange pools;       // those that were made; aligned to their size
  uint32_t free_pools = 0;  // made or not
  uint32_t total_pools = 0;
};

struct PythonArenas {
  std::vector<PythonArena> all;  // ascending by address
  std::string why_not;           // one clause: why they could not be told; empty: they are all
};

// Without arenas where Python takes its memory from elsewhere (PYTHONMALLOC=malloc). Of all
// `interpreters`, addresses of PyInterpreterState, the main one last.
PythonArenas find_python_arenas(Target& target, const PythonPlace& place,
                                std::span<const Address> interpreters);

}  // namespace heapsnap
