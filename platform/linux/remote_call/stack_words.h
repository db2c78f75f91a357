// The words of a thread's stack, from its stack pointer upwards.
//
//   stack pointer -> | word | word | ...        | end of the mapping, or of what can be read,
//                    <── a piece ──><── ... ──>    or 64 MiB above the stack pointer
//
// Whoever has to be sure that a thread is outside of some code looks at all of it: a signal handler
// may be any number of calls deep.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "target/address_space.h"
#include "target/memory_reader.h"

namespace heapsnap {

struct StackWords {
  uint64_t begin = 0;
  std::vector<uint64_t> words{};

  // The word at an address; none of one that is not aligned or lies outside.
  std::optional<uint64_t> at(uint64_t address) const;
};

// Gives pieces of 64 KiB, ascending, until `receive` returns false. `space` is of a moment ago:
// where it does not know the mapping (a thread that is new, a main stack that has grown), reading
// tells where it ends. False when there is more than 64 MiB, and all of those were given.
bool read_stack_pieces(const AddressSpace& space, MemoryReader& memory, uint64_t stack_pointer,
                       const std::function<bool(std::span<const uint64_t>)>& receive);

// All at once. None when there is more.
std::optional<StackWords> read_stack_words(const AddressSpace& space, MemoryReader& memory,
                                           uint64_t stack_pointer);

}  // namespace heapsnap
