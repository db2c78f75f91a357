#include "analysis/leading_roots.h"

#include <algorithm>

#include "analysis/bounded_sum.h"

namespace heapsnap {

namespace {

LargeArray<uint32_t> leading_root_of_blocks(const ReferenceGraph& graph,
                                            std::span<const PlacedRoot> roots) {
  constexpr size_t kAhead = 32;
  constexpr size_t kNear = 16;
  LargeArray<uint32_t> leading(graph.blocks());
  // Each block once when its first root comes, and once more when another one does.
  LargeArray<BlockNumber> queue(2 * size_t{graph.blocks()} + 1);
  size_t end = 0;
  const auto tell = [&](BlockNumber block, uint32_t root) {
    uint32_t& known = leading[block];
    const uint32_t now =
        known == LeadingRoots::kNobody || known == root ? root : LeadingRoots::kSeveral;
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

std::vector<uint32_t> places_of_several(const ReferenceGraph& graph,
                                        std::span<const PlacedRoot> roots, size_t places,
                                        const BlockSizes& sizes,
                                        const LargeArray<uint32_t>& leading) {
  std::vector<uint64_t> bytes(places);
  const auto lead = [&](uint32_t place, BlockNumber target) {
    if (leading[target] != LeadingRoots::kSeveral) return;
    bytes[place] = bounded_sum(bytes[place], std::max<uint64_t>(sizes[target], 1));
  };
  for (const PlacedRoot& root : roots) lead(root.place, root.target);
  for (BlockNumber block = 0; block < graph.blocks(); ++block) {
    const uint32_t root = leading[block];
    if (root == LeadingRoots::kNobody || root == LeadingRoots::kSeveral) continue;
    for (const BlockNumber target : graph.targets(block)) lead(root - 1, target);
  }
  std::vector<uint32_t> found;
  for (uint32_t place = 0; place < places; ++place) {
    if (bytes[place] != 0) found.push_back(place);
  }
  std::stable_sort(found.begin(), found.end(),
                   [&bytes](uint32_t a, uint32_t b) { return bytes[a] > bytes[b]; });
  return found;
}

}  // namespace

LeadingRoots find_leading_roots(const ReferenceGraph& graph, std::span<const PlacedRoot> roots,
                                size_t places, const BlockSizes& sizes) {
  LeadingRoots found{leading_root_of_blocks(graph, roots), {}};
  const auto is_several = [](uint32_t root) { return root == LeadingRoots::kSeveral; };
  if (std::any_of(found.of_blocks.begin(), found.of_blocks.end(), is_several)) {
    found.of_several = places_of_several(graph, roots, places, sizes, found.of_blocks);
  }
  return found;
}

}  // namespace heapsnap
