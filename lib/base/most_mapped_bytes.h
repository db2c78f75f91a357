// A bound on sizes that files from outside state.
#pragma once

#include <cstdint>

namespace heapsnap {

// No process has more bytes mapped. User space has 2^56 addresses at most (x86-64 with five levels
// of page tables; aarch64: 2^52); what lies above them, [vsyscall], is one page.
inline constexpr uint64_t kMostMappedBytes = uint64_t{1} << 57;

}  // namespace heapsnap
