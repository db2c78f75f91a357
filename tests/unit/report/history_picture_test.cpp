#include "report/history_picture.h"

#include <doctest/doctest.h>

#include "tests/unit/report/decoded_png.h"

using namespace heapsnap;
using heapsnap::test::DecodedPng;

namespace {

constexpr unsigned kWide = 960;
constexpr unsigned kHigh = 360;
constexpr unsigned kBelowLegend = 60;
constexpr double kSeen = 100 << 20;  // bytes at the end of ten seconds

// The share of the width at which a fit by so many bytes a second ends.
double end_of_fit(double per_second, double offset) {
  GrowthHistory history;
  history.runs.emplace_back();
  history.series.push_back({SeriesKind::kResident, "resident memory", {0.0, kSeen}, Slope{}});
  history.series.front().slope->per_second = per_second;
  history.series.front().slope->offset = offset;
  history.points = {{0, 0, "a.hsnap"}, {10'000'000'000, 0, "b.hsnap"}};
  std::string file;
  Writer out(file);
  write_history_picture({"web", history}, kWide, kHigh, out);
  out.flush();
  const DecodedPng picture(file);
  unsigned last = 0;
  for (unsigned y = kBelowLegend; y < picture.height; ++y) {
    for (unsigned x = 0; x < picture.width; ++x) {
      if (picture.at(x, y) == kDarkInk) last = std::max(last, x);
    }
  }
  return static_cast<double>(last) / kWide;
}

}  // namespace

TEST_CASE("the line of the fit keeps its slope and ends at the edge of the picture") {
  CHECK(end_of_fit(kSeen / 10, 0) > 0.8);
  CHECK(end_of_fit(0, kSeen / 2) > 0.8);
  const double steep = end_of_fit(kSeen / 5, 0);
  CHECK(steep > 0.3);
  CHECK(steep < 0.6);
  // Below 0 from the middle on.
  const double falling = end_of_fit(-kSeen / 5, kSeen);
  CHECK(falling > 0.3);
  CHECK(falling < 0.6);
  CHECK(end_of_fit(0, 2 * kSeen) == 0);
}
