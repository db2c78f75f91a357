#include "analysis/leading_roots.h"

#include <algorithm>
#include <numeric>

#include "analysis/bounded_sum.h"

namespace heapsnap {

namespace {

constexpr uint32_t kNobody = LeadingRoots::kNobody;
constexpr uint32_t kSeveral = LeadingRoots::kSeveral;

// Which places share, as a forest: those of one tree are one group.
class Sharing {
 public:
  explicit Sharing(size_t places) : above_(places) { std::iota(above_.begin(), above_.end(), 0); }
  uint32_t top(uint32_t place) {
    while (above_[place] != place) place = above_[place] = above_[above_[place]];
    return place;
  }
  void join(uint32_t a, uint32_t b) {
    const uint32_t one = top(a);
    const uint32_t other = top(b);
    above_[std::max(one, other)] = std::min(one, other);
  }

 private:
  std::vector<uint32_t> above_;
};

// Of a block that something leads to: that place, or one of several.
uint32_t place_of(uint32_t leading) {
  return LeadingRoots::is_several(leading) ? leading - kSeveral : leading - 1;
}

// With any place of its group in place of the number of the group.
LargeArray<uint32_t> leading_root_of_blocks(const ReferenceGraph& graph,
                                            std::span<const PlacedRoot> roots, Sharing& sharing) {
  constexpr size_t kAhead = 32;
  constexpr size_t kNear = 16;
  LargeArray<uint32_t> leading(graph.blocks());
  // Each block once when its first root comes, and once more when another one does.
  LargeArray<BlockNumber> queue(2 * size_t{graph.blocks()} + 1);
  size_t end = 0;
  const auto tell = [&](BlockNumber block, uint32_t root) {
    uint32_t& known = leading[block];
    uint32_t now = root;
    if (known != kNobody && known != root) [[unlikely]] {
      sharing.join(place_of(known), place_of(root));
      now = LeadingRoots::is_several(known) ? known : kSeveral + place_of(known);
    }
    queue[end] = block;
    end += now != known ? 1 : 0;
    known = now;
  };
  for (const PlacedRoot& root : roots) tell(root.target, root.place + 1);
  for (size_t next = 0; next < end; ++next) {
    if (next + kAhead < end) graph.prefetch(queue[next + kAhead]);
    if (next + kNear < end) graph.prefetch_targets(queue[next + kNear]);
    const uint32_t root = leading[queue[next]];
    for (const BlockNumber target : graph.targets(queue[next])) tell(target, root);
  }
  return leading;
}

// How many bytes of blocks of several roots each place leads to, without another one between.
std::vector<uint64_t> bytes_led_to(const ReferenceGraph& graph, std::span<const PlacedRoot> roots,
                                   size_t places, const BlockSizes& sizes,
                                   const LargeArray<uint32_t>& leading) {
  std::vector<uint64_t> bytes(places);
  const auto lead = [&](uint32_t place, BlockNumber target) {
    if (!LeadingRoots::is_several(leading[target])) return;
    bytes[place] = bounded_sum(bytes[place], std::max<uint64_t>(sizes[target], 1));
  };
  for (const PlacedRoot& root : roots) lead(root.place, root.target);
  for (BlockNumber block = 0; block < graph.blocks(); ++block) {
    const uint32_t root = leading[block];
    if (root == kNobody || LeadingRoots::is_several(root)) continue;
    for (const BlockNumber target : graph.targets(block)) lead(place_of(root), target);
  }
  return bytes;
}

}  // namespace

LeadingRoots find_leading_roots(const ReferenceGraph& graph, std::span<const PlacedRoot> roots,
                                size_t places, const BlockSizes& sizes) {
  Sharing sharing(places);
  LeadingRoots found{leading_root_of_blocks(graph, roots, sharing), {}};
  LargeArray<uint32_t>& leading = found.of_blocks;
  if (std::none_of(leading.begin(), leading.end(), LeadingRoots::is_several)) return found;

  const std::vector<uint64_t> bytes = bytes_led_to(graph, roots, places, sizes, leading);
  std::vector<uint32_t> sharers;
  for (uint32_t place = 0; place < places; ++place) {
    if (bytes[place] != 0) sharers.push_back(place);
  }
  std::stable_sort(sharers.begin(), sharers.end(),
                   [&bytes](uint32_t a, uint32_t b) { return bytes[a] > bytes[b]; });
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> group_of(places, kNone);  // by the top of the tree
  for (const uint32_t place : sharers) {
    uint32_t& group = group_of[sharing.top(place)];
    if (group == kNone) {
      group = static_cast<uint32_t>(found.groups.size());
      found.groups.emplace_back();
    }
    found.groups[group].push_back(place);
  }
  for (uint32_t& of_block : leading) {
    if (!LeadingRoots::is_several(of_block)) continue;
    of_block = kSeveral + group_of[sharing.top(place_of(of_block))];
  }
  return found;
}

SharedBlocks::SharedBlocks(const LeadingRoots& roots) {
  if (roots.groups.size() < 2) return;
  std::vector<BlockNumber> blocks(roots.groups.size());
  for (const uint32_t leading : roots.of_blocks) {
    if (LeadingRoots::is_several(leading)) ++blocks[LeadingRoots::group_of(leading)];
  }
  const auto most = std::max_element(blocks.begin(), blocks.end());
  most_ = static_cast<uint32_t>(most - blocks.begin());
  for (BlockNumber block = 0; block < roots.of_blocks.size(); ++block) {
    const uint32_t leading = roots.of_blocks[block];
    if (!LeadingRoots::is_several(leading) || LeadingRoots::group_of(leading) == most_) continue;
    others_.emplace_back(block, LeadingRoots::group_of(leading));
  }
}

uint32_t SharedBlocks::group_of(BlockNumber block) const {
  const auto found = std::lower_bound(others_.begin(), others_.end(), std::pair(block, uint32_t{}));
  return found != others_.end() && found->first == block ? found->second : most_;
}

}  // namespace heapsnap
