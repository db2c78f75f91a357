#include "analysis/leading_roots.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "tests/unit/analysis/random_graph.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

using Places = std::set<uint32_t>;

// By the simplest means: which places lead to each block.
std::vector<Places> leading_places(const Edges& edges, const std::vector<PlacedRoot>& roots,
                                   uint32_t places) {
  std::vector<Places> leading(edges.size());
  for (uint32_t place = 0; place < places; ++place) {
    std::vector<BlockNumber> starts;
    for (const PlacedRoot& root : roots) {
      if (root.place == place) starts.push_back(root.target);
    }
    const std::vector<bool> is_led_to = reached(edges, starts);
    for (size_t block = 0; block < edges.size(); ++block) {
      if (is_led_to[block]) leading[block].insert(place);
    }
  }
  return leading;
}

// The group of each place that shares, made of those that lead to one block until none overlap.
std::vector<Places> groups_of(const std::vector<Places>& leading) {
  std::vector<Places> groups;
  for (const Places& of_block : leading) {
    if (of_block.size() < 2) continue;
    Places joined = of_block;
    const auto overlaps = [&joined](const Places& group) {
      return std::any_of(group.begin(), group.end(),
                         [&joined](uint32_t place) { return joined.contains(place); });
    };
    for (auto group = groups.begin(); group != groups.end();) {
      if (overlaps(*group)) {
        joined.insert(group->begin(), group->end());
        groups.erase(group);
        group = groups.begin();
      } else {
        ++group;
      }
    }
    groups.push_back(joined);
  }
  return groups;
}

}  // namespace

TEST_CASE("roots that share blocks are a group, apart from others that share other blocks") {
  std::mt19937 random(2026);
  size_t most_groups = 0;
  for (int round = 0; round < 2000; ++round) {
    const Edges edges = random_edges(random, 24);
    const uint32_t places = 1 + random() % 8;
    std::vector<PlacedRoot> roots;
    for (unsigned i = random() % 12; i > 0; --i) {
      roots.push_back({static_cast<uint32_t>(random() % places),
                       static_cast<BlockNumber>(random() % edges.size())});
    }
    std::sort(roots.begin(), roots.end());
    BlockSizes sizes;
    for (size_t i = 0; i < edges.size(); ++i) sizes.add(8 * (1 + random() % 9));

    const LeadingRoots found = find_leading_roots(graph_of(edges), roots, places, sizes);
    const std::vector<Places> leading = leading_places(edges, roots, places);
    std::vector<Places> groups;
    for (const auto& group : found.groups) groups.emplace_back(group.begin(), group.end());
    const std::vector<Places> true_groups = groups_of(leading);
    REQUIRE(groups.size() == true_groups.size());
    CHECK(std::is_permutation(groups.begin(), groups.end(), true_groups.begin()));
    most_groups = std::max(most_groups, groups.size());

    const SharedBlocks shared(found);
    for (BlockNumber block = 0; block < edges.size(); ++block) {
      const uint32_t lead = found.of_blocks[block];
      REQUIRE(LeadingRoots::is_several(lead) == (leading[block].size() > 1));
      if (LeadingRoots::is_several(lead)) {
        const Places& group = groups.at(LeadingRoots::group_of(lead));
        CHECK(group.contains(*leading[block].begin()));
        CHECK(shared.group_of(block) == LeadingRoots::group_of(lead));
      } else {
        CHECK(lead ==
              (leading[block].empty() ? LeadingRoots::kNobody : 1 + *leading[block].begin()));
      }
    }
  }
  CHECK(most_groups > 1);
}
