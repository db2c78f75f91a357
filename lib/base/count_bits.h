#pragma once

#include <cstdint>

namespace heapsnap {

// How many bits are set. g++ makes of std::popcount a call into libgcc where the processor may lack
// the instruction.
constexpr uint32_t count_bits(uint64_t bits) {
  bits -= (bits >> 1) & 0x5555555555555555;
  bits = (bits & 0x3333333333333333) + ((bits >> 2) & 0x3333333333333333);
  bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0f;
  return static_cast<uint32_t>((bits * 0x0101010101010101) >> 56);
}

}  // namespace heapsnap
