#include "report/number_text.h"

#include <doctest/doctest.h>

using namespace heapsnap;

TEST_CASE("sizes are binary, with one decimal, rounded to the nearest") {
  CHECK(size_text(0) == "0 B");
  CHECK(size_text(1023) == "1023 B");
  CHECK(size_text(1024) == "1.0 KiB");
  CHECK(size_text(1535) == "1.5 KiB");
  CHECK(size_text(1536) == "1.5 KiB");
  CHECK(size_text(1587) == "1.5 KiB");  // 1.5498
  CHECK(size_text(1588) == "1.6 KiB");  // 1.5508
  CHECK(size_text(3957000000) == "3.7 GiB");
  CHECK(size_text(uint64_t{5} << 30) == "5.0 GiB");
  CHECK(size_text(uint64_t{10} << 60) == "10.0 EiB");
  CHECK(short_size_text(512) == "512");
  CHECK(short_size_text(1588) == "1.6K");
}

TEST_CASE("a size that rounds up to 1024 is one of the next unit") {
  for (unsigned unit = 1; unit < 6; ++unit) {
    CAPTURE(unit);
    const uint64_t step = uint64_t{1} << (10 * unit);
    const uint64_t next = step * 1024;
    const std::string letter(1, "KMGTPE"[unit - 1]);
    const std::string next_letter(1, "KMGTPE"[unit]);
    // A twentieth of the unit below the next one is the first size that rounds up.
    CHECK(short_size_text(next - step / 20 - 1) == "1023.9" + letter);
    CHECK(short_size_text(next - step / 20) == "1.0" + next_letter);
    CHECK(short_size_text(next - 1) == "1.0" + next_letter);
    CHECK(short_size_text(next) == "1.0" + next_letter);
  }
  CHECK(size_text((1 << 20) - 1) == "1.0 MiB");
  CHECK(size_text(UINT64_MAX) == "16.0 EiB");  // there is no next one
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
  CHECK(duration_text(999949) == "999.9 µs");
  CHECK(duration_text(999950) == "1.0 ms");
  CHECK(duration_text(999949999) == "999.9 ms");
  CHECK(duration_text(999950000) == "1.0 s");
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
