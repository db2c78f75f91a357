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
  sums.of_several = std::move(found.roots.of_several);
  std::vector<Tally> by_place(sums.places.size());
  Tally of_several;
  std::span<const BlockNumber> mallocs_own = found.columns.mallocs_own;
  for (BlockNumber block = 0; block < found.roots.of_blocks.size(); ++block) {
    if (!mallocs_own.empty() && mallocs_own.front() == block) {
      mallocs_own = mallocs_own.subspan(1);
      continue;
    }
    const uint64_t size = found.columns.sizes[block];
    sums.in_use.add(size);
    switch (const uint32_t owner = found.roots.of_blocks[block]) {
      case LeadingRoots::kNobody:
        (found.garbage.contains(block) ? sums.garbage : sums.leaked).add(size);
        break;
      case LeadingRoots::kSeveral: of_several.add(size); break;
      default: by_place[owner - 1].add(size);
    }
  }
  for (uint32_t place = 0; place < by_place.size(); ++place) {
    if (by_place[place].count != 0) sums.owners.push_back({false, place, by_place[place]});
  }
  if (of_several.count != 0) sums.owners.push_back({true, 0, of_several});
  sort_owners(sums);
  return sums;
}

OwnerSums sums_of(const OwnerTree& tree) {
  OwnerSums sums{tree.places, tree.threads, {},          tree.of_several,
                 tree.in_use, tree.leaked,  tree.garbage};
  for (const uint32_t child : tree.children[0]) {
    const OwnerNode& node = tree.nodes[child];
    sums.owners.push_back({node.kind == OwnerNode::Kind::kSeveral, node.place, node.retained});
  }
  sort_owners(sums);
  return sums;
}

}  // namespace heapsnap
