// The arenas of a malloc: a ring through malloc_state.next that begins and ends at main_arena.
#pragma once

#include <vector>

#include "heap/corruption_log.h"
#include "heap/heap_model.h"
#include "heap/located_malloc.h"
#include "heap/walk/thread_heaps.h"
#include "target/page_cache.h"

namespace heapsnap {

// Appends the arenas of `malloc` (number `instance`) to `arenas`, main_arena first. An arena whose
// link does not lead to another arena ends the ring with a record in `log`; the arenas behind it
// are then found by their heaps, as far as they have any. So they are when `left_out` is not null:
// an arena that is known to exist and that a ring of others does not hold.
void list_arenas(PageCache& cache, const LocatedMalloc& malloc, const ThreadHeaps& heaps,
                 uint32_t instance, Address left_out, std::vector<Arena>& arenas,
                 CorruptionLog& log);

}  // namespace heapsnap
