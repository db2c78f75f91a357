#include "references/scan_estimate.h"

#include <doctest/doctest.h>

using namespace heapsnap;

TEST_CASE("a scan is estimated by bytes where blocks are not known") {
  CHECK(estimated_scan_ns(0, uint64_t{1000} << 20) <= kMostScanNs);
  CHECK(estimated_scan_ns(0, uint64_t{1100} << 20) > kMostScanNs);
}

TEST_CASE("many small blocks take longer than their bytes tell") {
  constexpr uint64_t kSmall = 32;
  CHECK(estimated_scan_ns(4'000'000, 4'000'000 * kSmall) <= kMostScanNs);
  CHECK(estimated_scan_ns(6'000'000, 6'000'000 * kSmall) > kMostScanNs);
}

TEST_CASE("the most blocks that are looked at unasked take no longer than a second") {
  constexpr uint64_t kBytes = uint64_t{500} << 20;
  const uint64_t most = most_scanned_blocks(kBytes);
  CHECK(estimated_scan_ns(most, kBytes) <= kMostScanNs);
  CHECK(estimated_scan_ns(most + 1, kBytes) > kMostScanNs);
  CHECK(most_scanned_blocks(uint64_t{2} << 30) == 0);
}
