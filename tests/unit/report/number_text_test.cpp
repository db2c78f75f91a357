#include "report/number_text.h"

#include <doctest/doctest.h>

using namespace heapsnap;

TEST_CASE("sizes are binary, with one decimal that never exaggerates") {
  CHECK(size_text(0) == "0 B");
  CHECK(size_text(1023) == "1023 B");
  CHECK(size_text(1024) == "1.0 KiB");
  CHECK(size_text(1535) == "1.4 KiB");
  CHECK(size_text(1536) == "1.5 KiB");
  CHECK(size_text((1 << 20) - 1) == "1023.9 KiB");
  CHECK(size_text(1 << 20) == "1.0 MiB");
  CHECK(size_text(uint64_t{5} << 30) == "5.0 GiB");
  CHECK(size_text(UINT64_MAX) == "15.9 EiB");
  CHECK(short_size_text(512) == "512");
  CHECK(short_size_text(1536) == "1.5K");
  CHECK(short_size_text((uint64_t{1} << 40) - 1) == "1023.9G");
}

TEST_CASE("percentages tell little from nothing") {
  CHECK(percent_text(0, 0) == "-");
  CHECK(percent_text(0, 10) == "0.0 %");
  CHECK(percent_text(1, 1000000) == "<0.1 %");
  CHECK(percent_text(1, 8) == "12.5 %");
  CHECK(percent_text(8, 8) == "100.0 %");
}

TEST_CASE("counts are grouped") {
  CHECK(count_text(0) == "0");
  CHECK(count_text(999) == "999");
  CHECK(count_text(1000) == "1,000");
  CHECK(count_text(1234567) == "1,234,567");
  CHECK(count_text(1, "thread", "threads") == "1 thread");
  CHECK(count_text(2000, "thread", "threads") == "2,000 threads");
}

TEST_CASE("durations take the unit that fits") {
  CHECK(duration_text(0) == "0 ns");
  CHECK(duration_text(999) == "999 ns");
  CHECK(duration_text(1500) == "1.5 µs");
  CHECK(duration_text(1900000) == "1.9 ms");
  CHECK(duration_text(2500000000) == "2.5 s");
}

TEST_CASE("times are ISO 8601, UTC") {
  CHECK(time_text(0) == "1970-01-01T00:00:00.000000000Z");
  CHECK(time_text(1769903999123456789) == "2026-01-31T23:59:59.123456789Z");
  CHECK(time_text(-1) == "1969-12-31T23:59:59.999999999Z");
}

TEST_CASE("addresses and versions") {
  CHECK(address_text(Address(0x7f0012345678)) == "0x7f0012345678");
  CHECK(version_text({2, 36}) == "2.36");
  CHECK(version_text({}) == "unknown");
}
