#include "analysis/owner_sums.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "analysis/leak_census.h"
#include "analysis/owner_tree.h"
#include "base/error.h"
#include "handmade_references.h"
#include "random_graph.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

// Whether several, which, and what it retains.
using NamedTally = std::tuple<bool, uint32_t, uint64_t, uint64_t>;

std::vector<NamedTally> tops_of(const OwnerTree& tree) {
  std::vector<NamedTally> tops;
  for (const uint32_t child : tree.children[0]) {
    const OwnerNode& node = tree.nodes[child];
    const bool is_several = node.kind == OwnerNode::Kind::kSeveral;
    tops.emplace_back(is_several, node.place, node.retained.bytes, node.retained.count);
  }
  std::sort(tops.begin(), tops.end());
  return tops;
}

std::vector<NamedTally> tops_of(const OwnerSums& sums) {
  std::vector<NamedTally> tops;
  for (const OwnerSum& owner : sums.owners) {
    tops.emplace_back(owner.is_several, owner.place, owner.retained.bytes, owner.retained.count);
  }
  std::sort(tops.begin(), tops.end());
  return tops;
}

HandmadeHeap random_heap(std::mt19937& random) {
  HandmadeHeap heap;
  const Edges edges = random_edges(random, 60);
  for (size_t block = 0; block < edges.size(); ++block) {
    heap.add(24 + 16 * static_cast<uint64_t>(random() % 40));
  }
  for (BlockNumber block = 0; block < edges.size(); ++block) {
    for (const BlockNumber target : edges[block]) {
      const auto words = static_cast<uint32_t>(heap.blocks[block].size / HandmadeHeap::kWord);
      heap.link(block, 8 * static_cast<uint32_t>(random() % words), target);
    }
  }
  const char* const names[] = {"g_cache", "g_cache", "g_index", "", ""};
  for (const char* name : names) {
    const auto kind = static_cast<RootKind>(random() % kRootKindCount);
    const uint32_t place = heap.add_place(kind, name, static_cast<int32_t>(random() % 2));
    for (unsigned i = 0; i < random() % 4; ++i) {
      heap.hold(place, static_cast<BlockNumber>(random() % edges.size()), 8 * (random() % 20));
      heap.roots.back().interior = random() % 4 == 0;
    }
  }
  return heap;
}

}  // namespace

TEST_CASE("what each root owns is what it retains in the tree of owners") {
  std::mt19937 random(5);
  size_t owners = 0;
  size_t leaks = 0;
  size_t garbage = 0;
  for (int round = 0; round < 500; ++round) {
    HandmadeHeap heap = random_heap(random);
    const TypeNumber of_class = round % 3 == 0 ? heap.add_class("Big") : 0;
    for (HandmadeHeap::Block& block : heap.blocks) block.type = random() % 8 == 0 ? of_class : 0;
    heap.slots = static_cast<BlockNumber>(round % 2 == 0 ? 0 : random() % heap.blocks.size());
    const SnapshotStreams streams = heap.finish();
    const OwnerTree tree = make_owner_tree(streams, heap.streams);
    const OwnerSums sums = sum_owners(streams, heap.streams);
    CHECK(tops_of(sums) == tops_of(tree));
    const OwnerSums same = sums_of(tree);
    CHECK(same.owners == sums.owners);
    CHECK(same.places == sums.places);
    CHECK(same.in_use == sums.in_use);
    CHECK(same.leaked == sums.leaked);
    CHECK(same.garbage == sums.garbage);
    CHECK(sums.places == tree.places);
    CHECK(sums.threads == tree.threads);
    CHECK((sums.groups == tree.groups));
    CHECK(sums.in_use == tree.in_use);
    const LeakCensus census = take_leak_census(streams, heap.streams);
    CHECK(sums.leaked == tree.leaked);
    CHECK(sums.leaked == census.all);
    CHECK(sums.garbage == tree.garbage);
    CHECK(sums.garbage == census.garbage);
    garbage += sums.garbage.count;
    CHECK(std::is_sorted(
        sums.owners.begin(), sums.owners.end(),
        [](const OwnerSum& a, const OwnerSum& b) { return a.retained.bytes > b.retained.bytes; }));
    owners += sums.owners.size();
    leaks += sums.leaked.count;
  }
  CHECK(owners > 500);
  CHECK(leaks > 1000);
  CHECK(garbage > 1000);
}

TEST_CASE("references of other blocks than the snapshot's are refused") {
  HandmadeHeap heap;
  const uint32_t place = heap.add_place(RootKind::kVariable, "g_cache");
  heap.hold(place, heap.add(24));
  const SnapshotStreams streams = heap.finish();
  for (int i = 0; i < 10'000; ++i) heap.link(0, 8, heap.add(24), true);
  CHECK_THROWS_AS(sum_owners(streams, heap.streams), Error);
}
