#include "analysis/object_counts.h"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

using namespace heapsnap;

namespace {

using Counts = std::vector<ObjectCounts::Count>;

// Two Rubies, so that nothing of the other one is counted.
RuntimeModel two_rubies() {
  RuntimeModel model;
  model.runtimes.resize(2);
  model.pages = {{0, 40, 2, 100, 10, 5}, {0, 80, 1, 20, 30, 0}, {1, 40, 1, 1000, 1000, 0}};
  model.types = {{0, "STRING", "", 70, 3, 0, 0, 0},  {0, "OBJECT", "", 20, 0, 0, 0, 0},
                 {0, "DATA", "proc", 5, 0, 0, 0, 0}, {0, "DATA", "mutex", 4, 2, 0, 0, 0},
                 {0, "ARRAY", "", 0, 0, 0, 0, 0},    {1, "STRING", "", 1000, 0, 0, 0, 0}};
  model.classes = {{0, "Shop::Basket", 8, 8, 0, 0, 0}, {0, "Shopping", 4, 4, 0, 0, 0},
                   {0, "Shop", 1, 1, 0, 0, 0},         {0, "Shop::Old", 0, 0, 0, 0, 0},
                   {0, "Order", 7, 7, 0, 0, 0},        {1, "Shop::Basket", 99, 99, 0, 0, 0}};
  return model;
}

}  // namespace

TEST_CASE("slots are counted by built-in type, with dead objects") {
  const ObjectCounts counts = count_objects(two_rubies(), 0, {});
  CHECK(counts.total_slots == 160);
  CHECK(counts.free_slots == 40);
  CHECK(counts.basic_types == Counts{{"T_OBJECT", 20}, {"T_STRING", 73}, {"T_DATA", 11}});
  CHECK(counts.user_types.empty());
}

TEST_CASE("classes are counted that have a name, or lie in a namespace") {
  const std::array<std::string, 3> names = {"Shop", "Order", ""};
  CHECK(count_objects(two_rubies(), 0, names).user_types ==
        Counts{{"Order", 7}, {"Shop", 1}, {"Shop::Basket", 8}});
  const std::array<std::string, 1> none = {"Shop::"};
  CHECK(count_objects(two_rubies(), 0, none).user_types.empty());
}
