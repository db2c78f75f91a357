// What may be concluded of a slope: a trend only where it was observed long enough, and where it
// matters.
//
//   observed  change    slope's interval  trend
//   36 s      +0.3 %    any               kTooShort: a start or a cache that fills looks the same
//   2 days    +0.3 %    above 0           kTooLittle
//   2 days    +20 %     above 0           kGrows
//   2 days    +20 %     around 0          kUnsure
#pragma once

#include <cstdint>
#include <optional>

#include "analysis/robust_slope.h"

namespace heapsnap {

enum class Trend : uint8_t {
  kTooFew,  // snapshots: no slope, or no interval
  kTooShort,
  kTooLittle,
  kUnsure,
  kGrows,
  kShrinks,
};
const char* to_string(Trend trend);  // "too-few", "too-short", ...

// Within runs of the newest build, which a slope was fitted to.
struct Observation {
  double seconds = 0;  // from the first to the last snapshot of each run
  double change = 0;   // bytes, between these
  double last = 0;     // bytes
};

struct TrendBounds {
  double least_seconds = 3600;
  double least_share = 0.01;  // of `last`, that the slope amounts to over the time observed
};

Trend judge_trend(const std::optional<Slope>& slope, const Observation& observed,
                  const TrendBounds& bounds);

// A forecast reaches no farther than so many times the time observed.
inline constexpr double kForecastReach = 10;

}  // namespace heapsnap
