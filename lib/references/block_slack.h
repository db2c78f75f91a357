// Whether a block is as large as one of which so many bytes were asked for.
#pragma once

#include <cstdint>

namespace heapsnap {

inline constexpr uint64_t kSmallestMappedBlock = 64 << 10;

// `usable`: bytes that malloc_usable_size(3) gives for it. These are more than was asked for: a
// smallest chunk has room for 24 bytes, sizes are rounded up to 16, and a rest of 16 bytes is no
// chunk of its own. Chunks of mappings end where pages do.
constexpr bool is_filled_by(uint64_t usable, uint64_t bytes) {
  constexpr uint64_t kMostSlack = 40;
  constexpr uint64_t kPage = 4096;
  constexpr uint64_t kHeader = 16;
  if (bytes > usable) return false;
  const uint64_t slack = usable - bytes;
  return slack < kMostSlack ||
         (bytes >= kSmallestMappedBlock && slack < kPage && (usable + kHeader) % kPage == 0);
}

}  // namespace heapsnap
