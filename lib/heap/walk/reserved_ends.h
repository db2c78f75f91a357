// What malloc has reserved for thread heaps to grow into, as a core shows it.
//
//   | heap_info, chunks, top | reserved: PROT_NONE |     up to a multiple of HEAP_MAX_SIZE
//
// The kernel leaves such a mapping out of a core, or says that it has no access. gcore dumps it,
// and ELF flags say of it what they say of read-only memory, as gdb sets PF_R for every segment.
#pragma once

#include <span>
#include <vector>

#include "heap/heap_model.h"
#include "target/mapping.h"

namespace heapsnap {

// Takes the access off those of `mappings`, which are in order, that are reserved for one of
// `segments`. A mapping has one kind of access, so all of it is reserved.
void mark_reserved_ends(std::vector<Mapping>& mappings, std::span<const HeapSegment> segments,
                        unsigned word);

}  // namespace heapsnap
