// The words in a thread's vector registers that may be addresses.
//
// Code swaps and moves pairs of pointers through vector registers, so that for some instructions a
// block may be known to nothing else. Nothing is kept in them across a call, and so none across a
// system call.
//
//   XSAVE area   0 x87 ... | 160 xmm0 to xmm15 | 512 header | 576 upper halves, zmm16 to zmm31, ...
//
// (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 13.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace heapsnap {

constexpr size_t kVectorArea = 4096;  // that they are in; behind it are tiles of matrices

// Of `area`, in the layout of XSAVE or of FXSAVE, of any length.
std::vector<uint64_t> vector_words(std::span<const std::byte> area);

}  // namespace heapsnap
