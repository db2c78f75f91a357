#include "analysis/holding_paths.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/error.h"
#include "random_graph.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

Root root_at(uint32_t place, BlockNumber target) {
  return {place, 0, target, false};
}

// Of each place that leads to `block`: how many blocks its shortest path has.
std::map<uint32_t, size_t> true_lengths(const Edges& edges, const std::vector<Root>& roots,
                                        BlockNumber block) {
  std::map<uint32_t, size_t> lengths;
  for (const Root& root : roots) {
    std::vector<size_t> steps(edges.size(), 0);
    std::vector<BlockNumber> open{root.target};
    steps[root.target] = 1;
    for (size_t next = 0; next < open.size(); ++next) {
      for (const BlockNumber target : edges[open[next]]) {
        if (steps[target] != 0) continue;
        steps[target] = steps[open[next]] + 1;
        open.push_back(target);
      }
    }
    if (steps[block] == 0) continue;
    const auto known = lengths.emplace(root.place, steps[block]).first;
    known->second = std::min(known->second, steps[block]);
  }
  return lengths;
}

std::vector<HoldingPath> paths_to(const ReferenceGraph& sources, const std::vector<Root>& roots,
                                  BlockNumber block, size_t limit) {
  StepBudget budget;
  return holding_paths(sources, roots, block, limit, budget);
}

}  // namespace

TEST_CASE("paths lead from roots to the block, the shortest first") {
  const ReferenceGraph sources = reversed(graph_of({{1}, {2}, {}, {2}}));
  const std::vector<Root> roots{root_at(7, 0), root_at(8, 3), root_at(9, 1), root_at(9, 0)};
  const auto paths = paths_to(sources, roots, 2, 10);
  REQUIRE(paths.size() == 3);
  CHECK(paths[0] == HoldingPath{1, {3, 2}});
  CHECK(paths[1] == HoldingPath{2, {1, 2}});
  CHECK(paths[2] == HoldingPath{0, {0, 1, 2}});
  CHECK(paths_to(sources, roots, 2, 1).size() == 1);
  CHECK(paths_to(sources, roots, 4, 1).empty());
  CHECK(paths_to(sources, {}, 2, 1).empty());
  const std::vector<Root> wrong{root_at(0, 4)};
  CHECK_THROWS_AS(paths_to(sources, wrong, 2, 1), Error);
}

TEST_CASE("paths have a million steps together, or the first one alone has more") {
  constexpr BlockNumber kLong = 5000;
  Edges edges(kLong);
  for (BlockNumber i = 0; i + 1 < kLong; ++i) edges[i] = {i + 1};
  const ReferenceGraph sources = reversed(graph_of(edges));
  std::vector<Root> roots;
  for (uint32_t place = 0; place < 1000; ++place) roots.push_back(root_at(place, 0));
  constexpr size_t kMostSteps = StepBudget().left;
  StepBudget budget;
  CHECK(holding_paths(sources, roots, 9, 1000, budget).size() == 1000);
  CHECK_FALSE(budget.is_spent);
  CHECK(holding_paths(sources, roots, kLong - 1, 1000, budget).size() ==
        (kMostSteps - 10 * roots.size()) / kLong);
  CHECK(budget.is_spent);

  constexpr BlockNumber kLongest = kMostSteps + 5;
  edges.resize(kLongest);
  for (BlockNumber i = 0; i + 1 < kLongest; ++i) edges[i] = {i + 1};
  const auto paths = paths_to(reversed(graph_of(edges)), roots, kLongest - 1, 1000);
  REQUIRE(paths.size() == 1);
  CHECK(paths[0].blocks.size() == kLongest);
}

TEST_CASE("paths in random graphs exist and are the shortest of their places") {
  std::mt19937 random(6);
  for (int round = 0; round < 3000; ++round) {
    const Edges edges = random_edges(random, 25);
    std::vector<Root> roots;
    for (unsigned i = random() % 6; i > 0; --i) {
      roots.push_back(root_at(random() % 4, random() % edges.size()));
    }
    const BlockNumber block = random() % edges.size();
    auto lengths = true_lengths(edges, roots, block);
    const auto paths = paths_to(reversed(graph_of(edges)), roots, block, 100);
    REQUIRE(paths.size() == lengths.size());
    for (size_t i = 0; i < paths.size(); ++i) {
      const HoldingPath& path = paths[i];
      REQUIRE(path.blocks.size() == lengths.at(roots[path.root].place));
      if (i > 0) REQUIRE(paths[i - 1].blocks.size() <= path.blocks.size());
      REQUIRE(path.blocks.front() == roots[path.root].target);
      REQUIRE(path.blocks.back() == block);
      for (size_t step = 0; step + 1 < path.blocks.size(); ++step) {
        const auto& targets = edges[path.blocks[step]];
        REQUIRE(std::find(targets.begin(), targets.end(), path.blocks[step + 1]) != targets.end());
      }
    }
  }
}
