// The words of a thread's stack, from its stack pointer upwards.
//
//   stack pointer -> | word | word | ...        | end of the mapping, or of what can be read,
//                    <── a piece ──><── ... ──>    or 64 MiB above the stack pointer
//
// To be sure that a thread is outside some code, one has to look at all of its stack: a signal
// handler may be any number of calls deep.
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

  // The word at `address`; nullopt if that is not aligned or lies outside.
  std::optional<uint64_t> at(uint64_t address) const;
};

// Passes pieces of 64 KiB to `receive`, ascending, until it returns false. `space` may be out of
// date: if it lacks the mapping (a new thread, a main stack that has grown), reading finds its end.
// Returns false if there is more than 64 MiB, after passing all of those.
bool read_stack_pieces(const AddressSpace& space, MemoryReader& memory, uint64_t stack_pointer,
                       const std::function<bool(std::span<const uint64_t>)>& receive);

// All at once; nullopt if there is more.
std::optional<StackWords> read_stack_words(const AddressSpace& space, MemoryReader& memory,
                                           uint64_t stack_pointer);

}  // namespace heapsnap
