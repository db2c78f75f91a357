// Tells from the contents of free lists whether their links are protected ("safe linking", 2.32).
//
// Normally the version says it. A core whose libc cannot be opened has no version, and the layouts
// of 2.26 to 2.34 are otherwise the same. But both ways to read a link can be tried: the right one
// gives null or a chunk in a heap, the other one noise.
#pragma once

#include <optional>
#include <span>

#include "heap/heap_model.h"
#include "heap/malloc_layout.h"
#include "heap/walk/heap_areas.h"
#include "target/page_cache.h"

namespace heapsnap {

// Looks at the first link of each bin of `caches`, tcaches of one malloc; whether the layout says
// that links are protected has no influence. Nothing when there is no evidence, or as much for the
// one as for the other.
std::optional<bool> are_links_protected(PageCache& cache, const MallocLayout& layout,
                                        const HeapAreas& areas,
                                        std::span<const ThreadCache> caches);

}  // namespace heapsnap
