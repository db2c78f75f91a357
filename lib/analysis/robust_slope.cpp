#include "analysis/robust_slope.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace heapsnap {

namespace {

constexpr double kNormal95 = 1.959964;  // two-sided
// Of five points the extreme slopes hold the true one with 98 %, and the normal distribution puts
// their ranks at 0.999 and 9.001 of 10.
constexpr double kRankTolerance = 0.01;

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// Kendall's variance of S for one run: n(n-1)(2n+5)/18 less what ties take away.
double variance_of_run(std::span<const TimedValue> run) {
  const auto term = [](double n) { return n * (n - 1) * (2 * n + 5); };
  double variance = term(static_cast<double>(run.size()));
  std::map<double, size_t> ties;
  for (const TimedValue& point : run) ++ties[point.value];
  for (const auto& [value, count] : ties) variance -= term(static_cast<double>(count));
  return std::max(variance, 0.0) / 18;
}

// The runs one after the other, thinned out where there are too many points.
std::vector<TimedValue> thinned(std::span<const TimedValue> points) {
  const size_t step = (points.size() + kMostFitted - 1) / kMostFitted;
  std::vector<TimedValue> kept;
  for (size_t i = 0; i < points.size(); i += std::max<size_t>(step, 1)) kept.push_back(points[i]);
  return kept;
}

}  // namespace

std::optional<Slope> fit_slope(std::span<const TimedValue> all) {
  const std::vector<TimedValue> points = thinned(all);
  std::vector<double> slopes;
  double variance = 0;
  std::span<const TimedValue> last;
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin;
    while (end < points.size() && points[end].run == points[begin].run) ++end;
    last = std::span(points).subspan(begin, end - begin);
    for (size_t i = begin; i < end; ++i) {
      for (size_t j = i + 1; j < end; ++j) {
        const double passed = points[j].time_s - points[i].time_s;
        if (passed > 0) slopes.push_back((points[j].value - points[i].value) / passed);
      }
    }
    variance += variance_of_run(last);
    begin = end;
  }
  if (slopes.empty()) return std::nullopt;

  Slope slope;
  const auto pairs = static_cast<double>(slopes.size());
  const double half_width = kNormal95 * std::sqrt(variance);
  slope.per_second = median(slopes);
  std::sort(slopes.begin(), slopes.end());
  // Ranks count from 1; rounded outwards.
  const double low_rank = std::floor((pairs - half_width) / 2 + kRankTolerance);
  const double high_rank = std::ceil((pairs + half_width) / 2 - kRankTolerance) + 1;
  if (low_rank >= 1 && high_rank <= pairs) {
    slope.interval = Slope::Interval{slopes[static_cast<size_t>(low_rank) - 1],
                                     slopes[static_cast<size_t>(high_rank) - 1]};
  }
  std::vector<double> offsets;
  for (const TimedValue& point : last) {
    offsets.push_back(point.value - point.time_s * slope.per_second);
  }
  slope.offset = median(offsets);
  return slope;
}

}  // namespace heapsnap
