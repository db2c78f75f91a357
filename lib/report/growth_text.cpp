#include "report/growth_text.h"

#include <algorithm>
#include <cmath>

#include "report/number_text.h"

namespace heapsnap {

namespace {

constexpr double kSecondsPerMinute = 60;
constexpr double kSecondsPerHour = 3600;
constexpr double kSecondsPerDay = 86400;

uint64_t size_of(double bytes) {
  return static_cast<uint64_t>(std::min(std::abs(bytes), 1e18));
}

}  // namespace

std::string change_text(double bytes) {
  return (bytes < 0 ? "-" : "+") + size_text(size_of(bytes));
}

std::string short_change_text(double bytes) {
  const uint64_t size = size_of(bytes);
  return (size == 0 ? "" : bytes < 0 ? "-" : "+") + short_size_text(size);
}

std::string long_span_text(double seconds) {
  const auto whole = [](double number) { return static_cast<uint64_t>(std::min(number, 1e15)); };
  if (seconds >= 2 * kSecondsPerDay)
    return count_text(whole(seconds / kSecondsPerDay), "day", "days");
  if (seconds >= 2 * kSecondsPerHour) {
    return count_text(whole(seconds / kSecondsPerHour), "hour", "hours");
  }
  if (seconds >= 2 * kSecondsPerMinute) {
    return count_text(whole(seconds / kSecondsPerMinute), "minute", "minutes");
  }
  return count_text(whole(seconds), "second", "seconds");
}

RateUnit rate_unit(double observed_seconds) {
  if (observed_seconds < kSecondsPerHour) return {"a minute", "/minute", kSecondsPerMinute};
  if (observed_seconds < kSecondsPerDay) return {"an hour", "/hour", kSecondsPerHour};
  return {"a day", "/day", kSecondsPerDay};
}

}  // namespace heapsnap
