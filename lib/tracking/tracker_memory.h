// Where the tracker's own memory lies in a process, so that an account of the process can tell it
// from the program's.
//
// The tables list their mappings (tracker/table_layout.h, Region), and the ways to the functions
// that were hooked lead to the code that inject put aside. What the list names is a part of
// a mapping of the kernel's, which may have merged it with the tracker's unlisted working memory.
#pragma once

#include <vector>

#include "base/address.h"
#include "target/memory_reader.h"
#include "tracker/table_layout.h"

namespace heapsnap {

// The listed ranges, and the pages that the displaced instructions of its hooks lie in, by address,
// those that touch merged; kMostTrackerRanges at most, and the hooks'. Empty where the list is
// damaged.
inline constexpr size_t kMostTrackerRanges = 1U << 17;
std::vector<AddressRange> tracker_memory(MemoryReader& memory, const tracker::Directory& directory);

}  // namespace heapsnap
