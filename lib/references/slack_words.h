// Finds the slack words of a block among those of all.
#pragma once

#include <algorithm>
#include <span>

#include "references/reference.h"

namespace heapsnap {

// `all`: ascending by block. Null if the block has none.
inline const SlackWords* slack_of(std::span<const SlackWords> all, BlockNumber block) {
  const auto found = std::ranges::lower_bound(all, block, {}, &SlackWords::block);
  return found != all.end() && found->block == block ? &*found : nullptr;
}

}  // namespace heapsnap
