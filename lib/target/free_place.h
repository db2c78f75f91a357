// Where in an address space there is room for a small mapping that a jump can reach.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/address.h"
#include "target/mapping.h"

namespace heapsnap {

// The begin of `size` free bytes (a multiple of the page) nearest to `near`, such that no distance
// between a byte of one and a byte of the other is more than `reach`. Right below or right above
// what is mapped (ascending, as parse_maps gives it):
//
//   ... heap ▲ ····[x]│ mmaps │[x] libraries, vdso │[x]····················▼ stack
//
// Room that grows into free space is left to it: 64 MiB above the heap (brk) and below the stack.
// A process with gigabytes of mmaps has them below its libraries, so the place above these can be
// the only one. The process may take the place at any time: map it with MAP_FIXED_NOREPLACE.
std::optional<Address> free_place(const std::vector<Mapping>& mappings, const AddressRange& near,
                                  uint64_t size, uint64_t reach);

}  // namespace heapsnap
