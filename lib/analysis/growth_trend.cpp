#include "analysis/growth_trend.h"

#include <cmath>

namespace heapsnap {

const char* to_string(Trend trend) {
  switch (trend) {
    case Trend::kTooFew: return "too-few";
    case Trend::kTooShort: return "too-short";
    case Trend::kTooLittle: return "too-little";
    case Trend::kUnsure: return "unsure";
    case Trend::kGrows: return "grows";
    case Trend::kShrinks: return "shrinks";
  }
  return "unknown";
}

Trend judge_trend(const std::optional<Slope>& slope, const Observation& observed,
                  const TrendBounds& bounds) {
  if (!slope) return Trend::kTooFew;
  if (observed.seconds < bounds.least_seconds) return Trend::kTooShort;
  if (!slope->interval) return Trend::kTooFew;
  if (!slope->grows_significantly() && !slope->shrinks_significantly()) return Trend::kUnsure;
  const double change = std::abs(slope->per_second) * observed.seconds;
  if (change < bounds.least_share * observed.last) return Trend::kTooLittle;
  return slope->grows_significantly() ? Trend::kGrows : Trend::kShrinks;
}

}  // namespace heapsnap
