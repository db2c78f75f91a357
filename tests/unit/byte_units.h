// Powers of two that tests count bytes in.
#pragma once

#include <cstdint>

namespace heapsnap::test {

inline constexpr uint64_t kMiB = 1 << 20;
inline constexpr uint64_t kGiB = 1 << 30;

}  // namespace heapsnap::test
