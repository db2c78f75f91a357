#include "analysis/holding_paths.h"

#include <algorithm>
#include <unordered_set>

#include "analysis/block_set.h"
#include "base/error.h"

namespace heapsnap {

namespace {

// Roots by what they point into.
class RootsByTarget {
 public:
  RootsByTarget(std::span<const Root> roots, BlockNumber blocks) : roots_(roots), held_(blocks) {
    by_target_.reserve(roots.size());
    for (uint32_t i = 0; i < roots.size(); ++i) {
      if (roots[i].target >= blocks) {
        throw Error(ErrorKind::kBadInput, "the roots", "one leads to a block that is not there");
      }
      held_.insert(roots[i].target);
      by_target_.push_back(i);
    }
    std::stable_sort(by_target_.begin(), by_target_.end(),
                     [&](uint32_t a, uint32_t b) { return roots[a].target < roots[b].target; });
  }
  template <typename Visit>
  void each_of(BlockNumber block, Visit visit) const {
    if (!held_.contains(block)) return;
    auto at = std::lower_bound(by_target_.begin(), by_target_.end(), block,
                               [&](uint32_t i, BlockNumber b) { return roots_[i].target < b; });
    for (; at != by_target_.end() && roots_[*at].target == block; ++at) visit(*at);
  }

 private:
  std::span<const Root> roots_;
  BlockSet held_;
  std::vector<uint32_t> by_target_;
};

}  // namespace

std::vector<HoldingPath> holding_paths(const ReferenceGraph& sources, std::span<const Root> roots,
                                       BlockNumber block, size_t limit, StepBudget& budget) {
  std::vector<HoldingPath> paths;
  if (block >= sources.blocks()) return paths;
  const RootsByTarget by_target(roots, sources.blocks());
  std::unordered_set<uint32_t> places;
  BlockSet seen(sources.blocks());
  struct Step {
    BlockNumber block;
    uint32_t towards;  // index of the step that this one's block points to
  };
  LargeArray<Step> steps;
  seen.insert(block);
  steps.push_back({block, 0});
  for (uint32_t next = 0; next < steps.size() && paths.size() < limit; ++next) {
    const BlockNumber at = steps[next].block;
    by_target.each_of(at, [&](uint32_t root) {
      if (paths.size() == limit || !places.insert(roots[root].place).second) return;
      HoldingPath path{root, {}};
      for (uint32_t step = next; step != 0; step = steps[step].towards) {
        path.blocks.push_back(steps[step].block);
      }
      path.blocks.push_back(block);
      if (paths.empty() || path.blocks.size() <= budget.left) {
        budget.left -= std::min(path.blocks.size(), budget.left);
        paths.push_back(std::move(path));
      } else {
        budget.is_spent = true;
        limit = paths.size();
      }
    });
    for (const BlockNumber source : sources.targets(at)) {
      if (seen.insert(source)) steps.push_back({source, next});
    }
  }
  return paths;
}

}  // namespace heapsnap
