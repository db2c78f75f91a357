#include "analysis/owner_sums.h"

#include <algorithm>
#include <span>
#include <tuple>

#include "analysis/block_owners.h"

namespace heapsnap {

namespace {

// Those of equal size by place, what several own behind them.
void sort_owners(OwnerSums& sums) {
  std::sort(sums.owners.begin(), sums.owners.end(), [](const OwnerSum& a, const OwnerSum& b) {
    return std::tuple(b.retained.bytes, a.is_several, a.place) <
           std::tuple(a.retained.bytes, b.is_several, b.place);
  });
}

}  // namespace

OwnerSums sum_owners(const SnapshotStreams& streams, const ReferenceStreams& references) {
  BlockOwners found = find_block_owners(streams, references);
  OwnerSums sums;
  sums.places = std::move(found.places);
  sums.threads = std::move(found.threads);
  sums.groups = std::move(found.roots.groups);
  std::vector<Tally> by_place(sums.places.size());
  std::vector<Tally> by_group(sums.groups.size());
  std::span<const BlockNumber> mallocs_own = found.columns.mallocs_own;
  for (BlockNumber block = 0; block < found.roots.of_blocks.size(); ++block) {
    if (!mallocs_own.empty() && mallocs_own.front() == block) {
      mallocs_own = mallocs_own.subspan(1);
      continue;
    }
    const uint64_t size = found.columns.sizes[block];
    sums.in_use.add(size);
    const uint32_t owner = found.roots.of_blocks[block];
    if (owner == LeadingRoots::kNobody) {
      (found.garbage.contains(block) ? sums.garbage : sums.leaked).add(size);
    } else if (LeadingRoots::is_several(owner)) {
      by_group[LeadingRoots::group_of(owner)].add(size);
    } else {
      by_place[owner - 1].add(size);
    }
  }
  const auto add = [&sums](bool are_several, const std::vector<Tally>& tallies) {
    for (uint32_t i = 0; i < tallies.size(); ++i) {
      if (tallies[i].count != 0) sums.owners.push_back({are_several, i, tallies[i]});
    }
  };
  add(false, by_place);
  add(true, by_group);
  sort_owners(sums);
  return sums;
}

OwnerSums sums_of(const OwnerTree& tree) {
  OwnerSums sums{tree.places, tree.threads, {},          tree.groups,
                 tree.in_use, tree.leaked,  tree.garbage};
  for (const uint32_t child : tree.children[0]) {
    const OwnerNode& node = tree.nodes[child];
    sums.owners.push_back({node.kind == OwnerNode::Kind::kSeveral, node.place, node.retained});
  }
  sort_owners(sums);
  return sums;
}

}  // namespace heapsnap
