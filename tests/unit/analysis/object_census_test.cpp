#include "analysis/object_census.h"

#include <doctest/doctest.h>

#include <string>

using namespace heapsnap;

namespace {

using Order = ObjectCensus::Order;

RuntimeModel sample() {
  RuntimeModel model;
  model.runtimes.resize(2);
  model.classes = {{0, "list", 10, 10, 100, 900, 500},
                   {0, "int", 100, 0, 300, 0, 0},
                   {1, "Row", 7, 7, 400, 1, 3}};
  return model;
}

std::string names(const ObjectCensus& census) {
  std::string text;
  for (const RuntimeClass& row : census.classes) text += row.name + " ";
  return text;
}

}  // namespace

TEST_CASE("classes of all runtimes, the largest first") {
  CHECK(names(take_object_census(sample(), Order::kBytes)) == "list Row int ");
  CHECK(names(take_object_census(sample(), Order::kCount)) == "int list Row ");
  CHECK(names(take_object_census(sample(), Order::kOwn)) == "Row int list ");
}

TEST_CASE("sums are by runtime and of all") {
  const ObjectCensus census = take_object_census(sample(), Order::kBytes);
  REQUIRE(census.sums.size() == 2);
  CHECK(census.sums[0].count == 110);
  CHECK(census.sums[0].bytes == 1300);
  CHECK(census.sums[0].malloc_bytes == 500);
  CHECK(census.sums[1].bytes == 401);
  CHECK(census.all.count == 117);
  CHECK(census.all.malloc_bytes == 503);
}

TEST_CASE("sums of a damaged snapshot do not wrap") {
  RuntimeModel model = sample();
  model.classes[0].owned_bytes = UINT64_MAX;
  const ObjectCensus census = take_object_census(model, Order::kBytes);
  CHECK(census.classes[0].name == "list");
  CHECK(census.all.bytes == UINT64_MAX);
}

TEST_CASE("what classes retain is known by their names, of one runtime") {
  RuntimeModel model = sample();
  TypeCensus blocks;
  const std::vector<BlockType> types = {{},
                                        {"Row", "", TypeSource::kRuntime},
                                        {"list", "", TypeSource::kVtable},
                                        {"int", "", TypeSource::kRuntime}};
  for (TypeNumber type = 1; type < types.size(); ++type) {
    blocks.types.push_back({.type = type, .retained = {1, 1000 * uint64_t{type}}});
  }
  ObjectCensus census = take_object_census(model, Order::kCount);
  add_retained(blocks, types, census);
  REQUIRE(names(census) == "int list Row ");
  CHECK(census.retained_bytes == std::vector<uint64_t>{3000, 0, 1000});
  // The same name in two runtimes.
  model.runtimes.resize(2);
  model.classes.push_back({.runtime = 1, .name = "int", .count = 1});
  census = take_object_census(model, Order::kCount);
  add_retained(blocks, types, census);
  CHECK(census.retained_bytes.empty());
}
