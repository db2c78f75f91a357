// Objects of std::make_shared that are destroyed: while a std::weak_ptr is left, their memory
// stays, with the addresses that they had.
//
//   block ──► | vptr of std::_Sp_counted_ptr_inplace | shared_ptrs: 0 | weak_ptrs | object |
//
// An array of them has the vtable of std::_Sp_counted_array. Layout: _Sp_counted_base in
// libstdc++'s bits/shared_ptr_base.h; both counts are ints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "references/block_type.h"

namespace heapsnap {

// Whether blocks of `type`, which their vtables tell, have objects of std::make_shared.
bool is_shared_object(const BlockType& type);

// Whether a block of `type`, which its vtable tells, is one, or is just being destroyed. `bytes`:
// from its first one on; of too few, false. `usable`: bytes of the block. `word`: bytes of one.
bool is_destroyed_object(const BlockType& type, std::span<const std::byte> bytes, uint64_t usable,
                         unsigned word);

}  // namespace heapsnap
