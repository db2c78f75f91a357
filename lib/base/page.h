#pragma once

#include <cstdint>

namespace heapsnap {

// Bytes of the smallest page of x86-64 and of what arm64 usually runs with.
constexpr uint64_t kPage = 4096;

}  // namespace heapsnap
