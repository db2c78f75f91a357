#include "analysis/dominators.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "analysis/broad_dominators.h"
#include "analysis/deep_dominators.h"
#include "analysis/near_order.h"
#include "random_graph.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

// Of each block its immediate dominator; kNoBlock for the root and what it does not reach.
//
// A dominates B when B is not reached without A; the nearest is the one that all others dominate.
std::vector<BlockNumber> true_dominators(const Edges& edges, BlockNumber root) {
  const std::vector<bool> alive = reached(edges, {root});
  std::vector<std::vector<bool>> without;
  for (BlockNumber block = 0; block < edges.size(); ++block) {
    without.push_back(reached(edges, {root}, block));
  }
  const auto dominates = [&](BlockNumber a, BlockNumber b) {
    return a != b && alive[a] && alive[b] && !without[a][b];
  };
  std::vector<BlockNumber> result(edges.size(), kNoBlock);
  for (BlockNumber block = 0; block < edges.size(); ++block) {
    for (BlockNumber one = 0; one < edges.size(); ++one) {
      if (!dominates(one, block)) continue;
      if (result[block] == kNoBlock || dominates(result[block], one)) result[block] = one;
    }
  }
  return result;
}

void check_against_truth(const DominatorTree& tree, const Edges& edges, BlockNumber root) {
  const std::vector<bool> alive = reached(edges, {root});
  const std::vector<BlockNumber> truth = true_dominators(edges, root);
  REQUIRE(tree.size() == static_cast<uint32_t>(std::count(alive.begin(), alive.end(), true)));
  REQUIRE(tree.blocks[0] == root);
  std::vector<bool> seen(edges.size());
  for (uint32_t at = 0; at < tree.size(); ++at) {
    const BlockNumber block = tree.blocks[at];
    REQUIRE(!seen[block]);
    seen[block] = true;
    if (at == 0) continue;
    REQUIRE(tree.dominators[at] < at);
    REQUIRE(tree.blocks[tree.dominators[at]] == truth[block]);
  }
  // What goes with a block: all that is not reached without it.
  const BlockNumber first_virtual = static_cast<BlockNumber>(edges.size()) - 1;
  const auto bytes_of = [](BlockNumber block) { return uint64_t{block} * block + 1; };
  const RetainedSizes sizes = retained_sizes(tree, first_virtual, bytes_of);
  for (uint32_t at = 0; at < tree.size(); ++at) {
    const std::vector<bool> left = reached(edges, {root}, tree.blocks[at]);
    uint64_t bytes = 0;
    uint32_t blocks = 0;
    for (BlockNumber block = 0; block < first_virtual; ++block) {
      if (!alive[block] || left[block]) continue;
      bytes += bytes_of(block);
      ++blocks;
    }
    REQUIRE(sizes.bytes[at] == bytes);
    REQUIRE(sizes.blocks[at] == blocks);
  }
}

void check_against_truth(const Edges& edges, BlockNumber root) {
  check_against_truth(dominator_tree(graph_of(edges), root), edges, root);
  check_against_truth(deep_dominator_tree(graph_of(edges), root), edges, root);
  // What it takes too long for, it leaves alone.
  const auto broad = broad_dominator_tree(graph_of(edges), root);
  if (broad) check_against_truth(*broad, edges, root);
}

// Of each block, its immediate dominator; kNoBlock for the root and what it does not reach.
std::vector<BlockNumber> dominators_by_block(const DominatorTree& tree, size_t blocks) {
  std::vector<BlockNumber> result(blocks, kNoBlock);
  for (uint32_t at = 1; at < tree.size(); ++at) {
    result[tree.blocks[at]] = tree.blocks[tree.dominators[at]];
  }
  return result;
}

}  // namespace

TEST_CASE("dominators of small graphs") {
  check_against_truth({{}}, 0);
  check_against_truth({{0, 0}}, 0);
  check_against_truth({{1, 2}, {3}, {3}, {}}, 0);  // a diamond
  check_against_truth({{1, 2}, {2}, {1}}, 0);      // a loop with two entries
  check_against_truth({{1}, {2, 3}, {4}, {4, 2}, {1, 5}, {}}, 0);
  check_against_truth({{3}, {0, 2}, {1}, {}}, 0);  // 1 and 2 reach the root, not it them
  CHECK(dominator_tree(graph_of({{}}), 1).size() == 0);
}

TEST_CASE("dominators of random graphs are those that removing each block shows") {
  std::mt19937 random(3);
  for (int round = 0; round < 6000; ++round) {
    const Edges edges = random_edges(random, round % 50 == 0 ? 120 : 24);
    check_against_truth(edges, random() % edges.size());
  }
}

TEST_CASE("ladders, whose dominators are far away") {
  for (const BlockNumber count : {10U, 100U, 200U}) {
    Edges both(count);
    for (BlockNumber block = 0; block < count; ++block) {
      if (block + 1 < count) both[block].push_back(block + 1);
      if (block > 0) both[block].push_back(block - 1);
      if (block > 0 && block % 3 == 0) both[0].push_back(block);
      if (block + 7 < count) both[block].push_back(block + 7);
    }
    check_against_truth(both, 0);
    check_against_truth(both, count / 2);
  }
}

TEST_CASE("large graphs have the same dominators, searched breadth first or depth first") {
  std::mt19937 random(12);
  constexpr BlockNumber kBlocks = 100'000;
  Edges edges(kBlocks);
  for (BlockNumber block = 1; block < kBlocks; ++block) {
    edges[random() % block].push_back(block);
    if (block % 2 == 0) edges[random() % kBlocks].push_back(block);
  }
  const auto broad = broad_dominator_tree(graph_of(edges), 0);
  REQUIRE(broad);
  CHECK(dominators_by_block(*broad, kBlocks) ==
        dominators_by_block(deep_dominator_tree(graph_of(edges), 0), kBlocks));
}

TEST_CASE("where a tree breadth first takes too many steps to be put right, there is another") {
  // Two chains, one of which can be entered from each block of the other.
  constexpr BlockNumber kLength = 2000;
  constexpr BlockNumber kOne = 2;
  constexpr BlockNumber kOther = kOne + kLength;
  Edges edges(kOther + kLength);
  edges[0] = {1};
  edges[1] = {kOne, kOther};
  for (BlockNumber i = 0; i + 1 < kLength; ++i) {
    edges[kOne + i] = {kOne + i + 1, kOther + i + 1};
    edges[kOther + i] = {kOther + i + 1};
  }
  REQUIRE(!broad_dominator_tree(graph_of(edges), 0));
  const std::vector<BlockNumber> dominators =
      dominators_by_block(dominator_tree(graph_of(edges), 0), edges.size());
  CHECK(dominators == dominators_by_block(deep_dominator_tree(graph_of(edges), 0), edges.size()));
  CHECK(dominators[kOther + kLength - 1] == 1);
}

TEST_CASE("a graph in which one block leads to the next is not searched breadth first") {
  constexpr BlockNumber kBlocks = 600'000;
  Edges edges(kBlocks);
  for (BlockNumber block = 1; block < kBlocks; ++block) edges[block - 1] = {block};
  CHECK(!broad_dominator_tree(graph_of(edges), 0));
  CHECK(dominator_tree(graph_of(edges), 0).size() == kBlocks);
}

TEST_CASE("in near order, the graph is the same by other numbers") {
  std::mt19937 random(8);
  for (int round = 0; round < 1000; ++round) {
    const Edges edges = random_edges(random, round % 50 == 0 ? 20'000 : 200);
    const ReferenceGraph graph = graph_of(edges);
    const NearOrder order = near_order(graph);
    const ReferenceGraph other = renumbered(graph, order);
    REQUIRE(other.blocks() == edges.size());
    for (BlockNumber block = 0; block < edges.size(); ++block) {
      const BlockNumber number = order.numbers[block];
      REQUIRE(order.blocks[number] == block);
      const auto targets = other.targets(number);
      REQUIRE(targets.size() == edges[block].size());
      bool is_same = true;
      for (size_t i = 0; i < targets.size(); ++i) {
        is_same = is_same && order.blocks[targets[i]] == edges[block][i];
      }
      REQUIRE(is_same);
    }
  }
}

TEST_CASE("scattered blocks of a list come one after another in near order") {
  constexpr BlockNumber kBlocks = 100'000;
  std::vector<BlockNumber> place(kBlocks);
  std::iota(place.begin(), place.end(), 0U);
  std::shuffle(place.begin(), place.end(), std::mt19937(9));
  Edges edges(kBlocks);
  for (BlockNumber i = 1; i < kBlocks; ++i) edges[place[i - 1]] = {place[i]};
  const NearOrder order = near_order(graph_of(edges));
  BlockNumber next_to_each_other = 0;
  for (BlockNumber i = 1; i < kBlocks; ++i) {
    next_to_each_other += order.numbers[place[i]] == order.numbers[place[i - 1]] + 1 ? 1 : 0;
  }
  CHECK(next_to_each_other > kBlocks * 9 / 10);
}

TEST_CASE("a list of a million does not recurse, and each of its blocks keeps the rest") {
  constexpr BlockNumber kBlocks = 1'000'000;
  std::vector<BlockNumber> place(kBlocks);
  std::iota(place.begin(), place.end(), 0U);
  std::shuffle(place.begin(), place.end(), std::mt19937(10));
  Edges edges(kBlocks);
  for (BlockNumber i = 0; i < kBlocks; ++i) {
    // Back to the one before and to the first, too.
    edges[place[i]] = {place[i + 1 < kBlocks ? i + 1 : 0], place[i == 0 ? 0 : i - 1], place[0]};
  }
  const DominatorTree tree = dominator_tree(graph_of(edges), place[0]);
  const RetainedSizes sizes = retained_sizes(tree, kBlocks, [](BlockNumber) { return 32; });
  REQUIRE(tree.size() == kBlocks);
  bool is_right = true;
  for (uint32_t at = 0; at < kBlocks; ++at) {
    is_right = is_right && tree.blocks[at] == place[at] && sizes.blocks[at] == kBlocks - at &&
               sizes.bytes[at] == uint64_t{32} * (kBlocks - at);
  }
  CHECK(is_right);
}
