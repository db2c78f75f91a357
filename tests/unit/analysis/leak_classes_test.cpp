#include "analysis/leak_classes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "analysis/reachability.h"
#include "analysis/strong_components.h"
#include "random_graph.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

struct TrueLeaks {
  std::vector<std::vector<bool>> from;  // what each block reaches, itself included
  std::vector<bool> is_source;          // all that reach it, it reaches

  explicit TrueLeaks(const Edges& edges) : is_source(edges.size(), true) {
    for (BlockNumber block = 0; block < edges.size(); ++block) {
      from.push_back(reached(edges, {block}));
    }
    for (BlockNumber block = 0; block < edges.size(); ++block) {
      for (BlockNumber other = 0; other < edges.size(); ++other) {
        if (from[other][block] && !from[block][other]) is_source[block] = false;
      }
    }
  }
  bool is_same_component(BlockNumber a, BlockNumber b) const { return from[a][b] && from[b][a]; }
  // The first block of each source that reaches it.
  std::vector<BlockNumber> sources_of(BlockNumber block) const {
    std::vector<BlockNumber> sources;
    for (BlockNumber one = 0; one < from.size(); ++one) {
      if (!is_source[one] || !from[one][block]) continue;
      const bool is_first = std::none_of(sources.begin(), sources.end(), [&](BlockNumber other) {
        return is_same_component(one, other);
      });
      if (is_first) sources.push_back(one);
    }
    return sources;
  }
};

LeakKind true_kind(const Edges& edges, const TrueLeaks& truth, BlockNumber block) {
  if (!truth.is_source[block]) return LeakKind::kIndirect;
  for (BlockNumber one = 0; one < edges.size(); ++one) {
    if (!truth.is_same_component(one, block)) continue;
    for (const BlockNumber target : edges[one]) {
      if (target != one && truth.is_same_component(target, block)) return LeakKind::kCycle;
    }
  }
  return LeakKind::kDirect;
}

void check_leaks(const Edges& edges) {
  const TrueLeaks truth(edges);
  std::vector<uint64_t> bytes(edges.size());
  std::iota(bytes.begin(), bytes.end(), 100);
  const LeakClasses classes = classify_leaks(graph_of(edges), bytes);
  std::vector<uint64_t> retained_bytes(classes.sources.size());
  std::vector<BlockNumber> retained_blocks(classes.sources.size());
  size_t sources = 0;
  for (BlockNumber block = 0; block < edges.size(); ++block) {
    REQUIRE(classes.kinds[block] == true_kind(edges, truth, block));
    const std::vector<BlockNumber> holders = truth.sources_of(block);
    REQUIRE(!holders.empty());
    sources += holders.front() == block && truth.is_source[block] ? 1 : 0;
    if (holders.size() > 1) {
      REQUIRE(classes.origins[block] == LeakClasses::kSeveral);
      continue;
    }
    const uint32_t origin = classes.origins[block];
    REQUIRE(origin < classes.sources.size());
    REQUIRE(classes.sources[origin].block == holders.front());
    ++retained_blocks[origin];
    retained_bytes[origin] += bytes[block];
  }
  REQUIRE(classes.sources.size() == sources);
  for (size_t i = 0; i < sources; ++i) {
    const LeakOrigin& source = classes.sources[i];
    if (i > 0) REQUIRE(classes.sources[i - 1].block < source.block);
    REQUIRE(source.kind == classes.kinds[source.block]);
    REQUIRE(source.retained_blocks == retained_blocks[i]);
    REQUIRE(source.retained_bytes == retained_bytes[i]);
    BlockNumber members = 0;
    for (BlockNumber block = 0; block < edges.size(); ++block) {
      members += truth.is_same_component(source.block, block) ? 1 : 0;
    }
    REQUIRE(source.blocks == members);
  }
}

}  // namespace

TEST_CASE("leaks are direct, indirect or a cycle") {
  check_leaks({{1}, {2}, {}});           // a list
  check_leaks({{1}, {0, 2}, {}});        // a ring that holds another
  check_leaks({{0}});                    // one that points to itself: direct
  check_leaks({{1}, {1}});               // held, so it is no origin
  check_leaks({{2}, {2}, {3}, {}});      // held by two
  check_leaks({{1}, {0}, {3}, {2, 0}});  // a ring held by a ring
  CHECK(classify_leaks(graph_of({}), {}).sources.empty());
}

TEST_CASE("leaks of random graphs are classed as by definition") {
  std::mt19937 random(4);
  for (int round = 0; round < 4000; ++round) check_leaks(random_edges(random, 20));
}

TEST_CASE("components are the blocks that lead to each other, in order") {
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    const Edges edges = random_edges(random, 30);
    const StrongComponents found = strong_components(graph_of(edges));
    const TrueLeaks truth(edges);
    for (BlockNumber a = 0; a < edges.size(); ++a) {
      REQUIRE(found.component[a] < found.count);
      for (BlockNumber b = 0; b < edges.size(); ++b) {
        REQUIRE((found.component[a] == found.component[b]) == truth.is_same_component(a, b));
        if (truth.from[a][b]) REQUIRE(found.component[a] <= found.component[b]);
      }
    }
  }
}

TEST_CASE("only references between leaked blocks count") {
  const Edges edges{{1}, {}, {1, 3, 4}, {2, 0}, {}};
  const ReferenceGraph graph = graph_of(edges);
  const std::vector<BlockNumber> roots{0};
  const ReferenceGraph leaked = leaked_graph(graph, reachable_blocks(graph, roots));
  REQUIRE(leaked.blocks() == 3);
  CHECK(leaked.targets(0).size() == 2);
  CHECK(leaked.targets(0)[0] == 1);
  CHECK(leaked.targets(0)[1] == 2);
  CHECK(leaked.targets(1).size() == 1);
  CHECK(leaked.targets(1)[0] == 0);
  CHECK(leaked.targets(2).empty());
}

TEST_CASE("a list and a ring of a million do not recurse") {
  constexpr BlockNumber kBlocks = 1'000'000;
  for (const bool is_ring : {false, true}) {
    ReferenceGraph graph;
    for (BlockNumber block = 0; block < kBlocks; ++block) {
      const BlockNumber next = block + 1 < kBlocks ? block + 1 : is_ring ? 0 : block;
      graph.add(std::span(&next, next == block ? 0 : 1));
    }
    graph.finish();
    const LeakClasses classes = classify_leaks(graph, std::vector<uint64_t>(kBlocks, 16));
    REQUIRE(classes.sources.size() == 1);
    CHECK(classes.sources[0].kind == (is_ring ? LeakKind::kCycle : LeakKind::kDirect));
    CHECK(classes.sources[0].blocks == (is_ring ? kBlocks : 1));
    CHECK(classes.sources[0].retained_blocks == kBlocks);
    CHECK(classes.sources[0].retained_bytes == uint64_t{16} * kBlocks);
  }
}
