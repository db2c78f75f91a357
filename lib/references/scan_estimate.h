// How long it takes to find the references of a process, before it is done.
#pragma once

#include <cstdint>

namespace heapsnap {

// Nanoseconds of one core. `blocks`: live ones, 0 while they are not counted; `bytes`: of memory
// that is looked at. Within a factor of two of each shape that was measured
// (docs/design/004-references.md); the rate of bytes, a GiB a second, is assumed.
constexpr uint64_t estimated_scan_ns(uint64_t blocks, uint64_t bytes) {
  constexpr uint64_t kBlockNs = 200;
  constexpr uint64_t kMebibyteNs = 1'000'000'000 / 1024;
  return blocks * kBlockNs + (bytes >> 20) * kMebibyteNs;
}

// What is taken without being asked for.
inline constexpr uint64_t kMostScanNs = 1'000'000'000;

}  // namespace heapsnap
