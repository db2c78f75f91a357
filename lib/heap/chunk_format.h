// How one malloc cuts memory into chunks: alignment, limits and the flags of the size field.
//
//   x86-64, aarch64    chunks on multiples of 16                            smallest 32
//   i386 up to 2.25    chunks on multiples of 8                             smallest 16
//   i386 since 2.26    chunks at 8 mod 16, so that what malloc returns is   smallest 16
//                      on a multiple of 16 (sysdeps/i386/malloc-alignment.h)
//
// Source: malloc/malloc.c, MALLOC_ALIGNMENT, MINSIZE, MIN_LARGE_SIZE.
#pragma once

#include <cstdint>

#include "base/address.h"
#include "heap/malloc_layout.h"

namespace heapsnap {

struct ChunkFormat {
  // Bits of the size field.
  static constexpr uint64_t kPreviousInUse = 1;
  static constexpr uint64_t kMmapped = 2;
  static constexpr uint64_t kNonMainArena = 4;  // on chunks in use only
  static constexpr uint64_t kFlags = 7;

  unsigned word = 8;
  uint64_t header = 16;            // prev_size and size; also the size that a fencepost carries
  uint64_t alignment = 16;         // of what malloc returns, and of sizes
  uint64_t min_size = 32;          // MINSIZE
  uint64_t min_large_size = 1024;  // the first size that belongs into a large bin
  uint64_t pointer_mask = ~0ULL;   // aarch64 ignores the top byte of a pointer (MTE tags)

  ChunkFormat() = default;
  explicit ChunkFormat(const MallocLayout& layout)
      : word(layout.word), header(2ULL * layout.word), alignment(layout.malloc_alignment) {
    min_size = (4ULL * word + alignment - 1) & ~(alignment - 1);
    min_large_size = (64 - (alignment > header ? 1 : 0)) * alignment;
    if (layout.machine == Machine::kAarch64) pointer_mask = ~0ULL >> 8;
  }

  constexpr uint64_t size_of(uint64_t size_field) const { return size_field & ~kFlags; }
  constexpr Address pointer(uint64_t raw) const { return Address(raw & pointer_mask); }
  // Of a chunk's header.
  constexpr bool is_aligned(Address chunk) const { return (chunk + header).is_aligned(alignment); }
  constexpr Address align_up(Address chunk) const {
    return (chunk + header).align_up(alignment) - header;
  }
  // Bits that no size field inside an arena has set.
  constexpr uint64_t impossible_bits(bool is_main_arena) const {
    return ((alignment - 1) & ~kFlags) | kMmapped | (is_main_arena ? kNonMainArena : 0);
  }
};

}  // namespace heapsnap
