#include "report/sparkline.h"

#include <doctest/doctest.h>

#include <vector>

using namespace heapsnap;

namespace {

using SparkValues = std::vector<std::optional<double>>;

std::string spark(const SparkValues& values, size_t width, std::vector<size_t> runs = {}) {
  runs.resize(values.size());
  return sparkline(values, runs, width);
}

}  // namespace

TEST_CASE("from the lowest block to the highest") {
  CHECK(spark({0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0}, 8) == "▁▂▃▄▅▆▇█");
  CHECK(spark({7.0, 0.0}, 8) == "█▁");
  CHECK(spark({5.0, 5.0, 5.0}, 8) == "▁▁▁");
}

TEST_CASE("more values than columns: each column shows the last of its part") {
  CHECK(spark({0.0, 7.0, 0.0, 7.0}, 2) == "██");
  CHECK(spark({7.0, 0.0, 7.0, 7.0}, 2) == "▁█");
}

TEST_CASE("unknown values are blanks, runs are parted by bars") {
  CHECK(spark({0.0, std::nullopt, 7.0}, 8) == "▁ █");
  CHECK(spark({std::nullopt, std::nullopt}, 8).empty());
  CHECK(spark({}, 8).empty());
  CHECK(spark({0.0, 7.0, 0.0, 7.0}, 8, {0, 0, 1, 1}) == "▁█|▁█");
  CHECK(spark({0.0, 7.0, 0.0, 7.0}, 4, {0, 1, 2, 3}) == "▁█▁█");  // no room for bars
}
