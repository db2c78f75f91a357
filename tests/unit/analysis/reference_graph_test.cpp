#include "analysis/reference_graph.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "analysis/reachability.h"
#include "base/error.h"
#include "random_graph.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

std::vector<BlockNumber> targets_of(const ReferenceGraph& graph, BlockNumber block) {
  const auto targets = graph.targets(block);
  return {targets.begin(), targets.end()};
}

}  // namespace

TEST_CASE("a graph gives each block's targets in the order of its words") {
  const ReferenceGraph graph = graph_of({{2, 1, 2}, {}, {0}});
  CHECK(graph.blocks() == 3);
  CHECK(graph.references() == 4);
  CHECK(targets_of(graph, 0) == std::vector<BlockNumber>{2, 1, 2});
  CHECK(targets_of(graph, 1).empty());
  CHECK(targets_of(graph, 2) == std::vector<BlockNumber>{0});
}

TEST_CASE("an empty graph is one") {
  ReferenceGraph graph;
  graph.finish();
  CHECK(graph.blocks() == 0);
  CHECK(reversed(graph).blocks() == 0);
  CHECK(reachable_blocks(graph, {}).missing() == 0);
}

TEST_CASE("a reference to a block that is not there is refused") {
  ReferenceGraph graph;
  graph.add(std::vector<BlockNumber>{1});
  CHECK_THROWS_AS(graph.finish(), Error);
  graph.add({});
  graph.finish();
  ReferenceGraph far;
  far.add(std::vector<BlockNumber>{kNoBlock});
  CHECK_THROWS_AS(far.finish(), Error);
  const std::vector<BlockNumber> no_block{2};
  CHECK_THROWS_AS(reachable_blocks(graph, no_block), Error);
}

TEST_CASE("what points to blocks can be appended after them") {
  for (const BlockNumber blocks : {1U, 4095U, 4096U, 4097U, 8192U}) {
    Edges edges(blocks);
    for (BlockNumber block = 1; block < blocks; ++block) edges[block] = {block - 1, block};
    ReferenceGraph graph = graph_of(edges);
    graph.reopen();
    graph.add(std::vector<BlockNumber>{blocks - 1, 0});
    graph.finish();
    CHECK(graph.blocks() == blocks + 1);
    CHECK(targets_of(graph, blocks) == std::vector<BlockNumber>{blocks - 1, 0});
    bool is_same = true;
    for (BlockNumber block = 0; block < blocks; ++block) {
      is_same = is_same && targets_of(graph, block) == edges[block];
    }
    CHECK(is_same);
  }
}

TEST_CASE("batches become a graph, and ones that contradict themselves are refused") {
  ReferenceGraph graph;
  ReferenceGraphSink sink(graph);
  const std::vector<uint32_t> counts{2, 0, 1};
  const std::vector<uint32_t> offsets{0, 3, 1};
  const std::vector<BlockNumber> targets{1, 3, 0};
  const std::vector<uint8_t> interior{0, 1, 0};
  sink.on_references({0, counts, offsets, targets, interior});
  CHECK_THROWS_AS(sink.on_references({4, counts, offsets, targets, interior}), Error);
  const std::vector<uint32_t> too_many{4};
  CHECK_THROWS_AS(sink.on_references({3, too_many, offsets, targets, interior}), Error);
  sink.on_references({3, std::span(counts).subspan(2), {}, std::span(targets).subspan(2), {}});
  sink.on_references({3, std::span(counts).subspan(0, 1), {}, std::span(targets).first(2), {}});
  graph.finish();
  CHECK(graph.blocks() == 4);
  CHECK(targets_of(graph, 0) == std::vector<BlockNumber>{1, 3});
  CHECK(targets_of(graph, 2) == std::vector<BlockNumber>{0});
  CHECK(targets_of(graph, 3) == std::vector<BlockNumber>{0, 1, 3});  // it went on
}

TEST_CASE("turned round, each reference leads back") {
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    const Edges edges = random_edges(random, 40);
    Edges back(edges.size());
    for (BlockNumber block = 0; block < edges.size(); ++block) {
      for (const BlockNumber target : edges[block]) {
        back[target].insert(back[target].begin(), block);
      }
    }
    const ReferenceGraph sources = reversed(graph_of(edges));
    for (BlockNumber block = 0; block < edges.size(); ++block) {
      REQUIRE(targets_of(sources, block) == back[block]);
    }
  }
  // Across the groups in which offsets are kept.
  Edges star(10'000);
  for (BlockNumber block = 0; block < star.size(); ++block) star[block] = {0, 9'999 - block};
  const ReferenceGraph sources = reversed(graph_of(star));
  CHECK(sources.targets(0).size() == 10'001);
  CHECK(targets_of(sources, 5'000) == std::vector<BlockNumber>{4'999});
}

TEST_CASE("reachable blocks are those that a search finds, and the rest are numbered") {
  std::mt19937 random(2);
  for (int round = 0; round < 3000; ++round) {
    const Edges edges = random_edges(random, round % 100 == 0 ? 2000 : 60);
    std::vector<BlockNumber> roots;
    for (unsigned i = random() % 4; i > 0; --i) roots.push_back(random() % edges.size());
    const BlockSet found = reachable_blocks(graph_of(edges), roots);
    const std::vector<bool> truth = reached(edges, roots);
    BlockNumber missing = 0;
    std::vector<BlockNumber> listed;
    for (BlockNumber block = 0; block < edges.size(); ++block) {
      REQUIRE(found.contains(block) == truth[block]);
      REQUIRE(found.rank_missing(block) == missing);
      if (truth[block]) continue;
      listed.push_back(block);
      ++missing;
    }
    REQUIRE(found.missing() == missing);
    std::vector<BlockNumber> visited;
    found.each_missing([&](BlockNumber block) { visited.push_back(block); });
    REQUIRE(visited == listed);
  }
}
