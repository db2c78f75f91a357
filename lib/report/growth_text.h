// Changes and rates as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace heapsnap {

// "+1.5 MiB"
std::string change_text(double bytes);
// The same for narrow columns.
std::string short_change_text(double bytes);
// "14 days", "5 hours"
std::string long_span_text(double seconds);

// Rates are printed in the unit that fits the time observed: nobody saw a day in 36 s.
struct RateUnit {
  const char* per;     // "a minute"
  const char* column;  // "/minute"
  double seconds;
};
RateUnit rate_unit(double observed_seconds);

}  // namespace heapsnap
