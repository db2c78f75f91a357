// How long it takes to find the references of a process, before it is done.
#pragma once

#include <cstdint>

namespace heapsnap {

inline constexpr uint64_t kScanBlockNs = 200;

// Nanoseconds of one core. `blocks`: live ones, 0 while they are not counted; `bytes`: of memory
// that is looked at. Within a factor of two of each shape that was measured
// (docs/design/004-references.md); the rate of bytes, a GiB a second, is assumed.
constexpr uint64_t estimated_scan_ns(uint64_t blocks, uint64_t bytes) {
  constexpr uint64_t kMebibyteNs = 1'000'000'000 / 1024;
  return blocks * kScanBlockNs + (bytes >> 20) * kMebibyteNs;
}

// What is taken without being asked for.
inline constexpr uint64_t kMostScanNs = 1'000'000'000;

// The most blocks in `bytes` of memory that take no longer than that.
constexpr uint64_t most_scanned_blocks(uint64_t bytes) {
  const uint64_t bytes_ns = estimated_scan_ns(0, bytes);
  return bytes_ns < kMostScanNs ? (kMostScanNs - bytes_ns) / kScanBlockNs : 0;
}

}  // namespace heapsnap
