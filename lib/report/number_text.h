// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

#include "base/address.h"
#include "base/count_text.h"
#include "heap/heap_model.h"

namespace heapsnap {

// "12.3 %", "<0.1 %" for a little more than nothing, "-" of nothing.
std::string percent_text(uint64_t part, uint64_t whole);
std::string percent_text(double share);
// An estimate as a count: the nearest whole number that is not negative.
uint64_t whole_number(double number);
// "0x7f0012345678"
std::string address_text(Address address);
// "2.36", "unknown"
std::string version_text(GlibcVersion version);
// "+1.5K", "-12.3M", "0": a change, for narrow columns (short_size_text()).
std::string short_change_text(int64_t bytes);
// "340 ns", "1.2 µs", "1.9 ms", "2.5 s"
std::string duration_text(uint64_t nanoseconds);
// "2026-01-31T23:59:59.123456789Z" for nanoseconds since 1970, UTC, with 1 to 9 digits
// of the fraction.
std::string time_text(int64_t nanoseconds, unsigned digits = 9);

}  // namespace heapsnap
