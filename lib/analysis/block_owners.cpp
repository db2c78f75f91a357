#include "analysis/block_owners.h"

#include <map>
#include <span>

#include "analysis/owning_roots.h"

namespace heapsnap {

namespace {

LargeArray<uint32_t> find_holders(const ReferenceGraph& graph, std::span<const PlacedRoot> roots) {
  constexpr size_t kAhead = 32;
  constexpr size_t kNear = 16;
  LargeArray<uint32_t> holders(graph.blocks());
  // Each block once when its first root comes, and once more when another one does.
  LargeArray<BlockNumber> queue(2 * size_t{graph.blocks()} + 1);
  size_t end = 0;
  const auto tell = [&](BlockNumber block, uint32_t holder) {
    uint32_t& known = holders[block];
    const uint32_t now =
        known == BlockOwners::kNobody || known == holder ? holder : BlockOwners::kSeveral;
    queue[end] = block;
    end += now != known ? 1 : 0;
    known = now;
  };
  for (const PlacedRoot& root : roots) tell(root.target, root.place + 1);
  for (size_t next = 0; next < end; ++next) {
    if (next + kAhead < end) graph.prefetch(queue[next + kAhead]);
    if (next + kNear < end) graph.prefetch_targets(queue[next + kNear]);
    const uint32_t holder = holders[queue[next]];
    for (const BlockNumber target : graph.targets(queue[next])) tell(target, holder);
  }
  return holders;
}

}  // namespace

BlockOwners find_block_owners(const SnapshotStreams& streams, const ReferenceStreams& references) {
  BlockOwners found;
  found.columns = read_block_columns(streams, std::nullopt);
  OwnedBlocks owned = owned_blocks(streams, references, found.columns.sizes);
  found.garbage = std::move(owned.garbage);
  found.owners = find_holders(owned.graph, owned.owning.roots);
  found.places = std::move(owned.owning.places);
  const std::vector<uint32_t> first = first_of_name(found.places);
  for (uint32_t& owner : found.owners) {
    const bool is_place = owner != BlockOwners::kNobody && owner != BlockOwners::kSeveral;
    if (is_place) owner = first[owner - 1] + 1;
  }
  return found;
}

ExplainedBlocks::ExplainedBlocks(const SnapshotStreams& streams, const ReferenceStreams& references,
                                 NameScope scope)
    : owners_(find_block_owners(streams, references)),
      types_(read_types(references, blocks())),
      names_(1) {
  const RootNames roots(*streams.metadata, scope);
  std::map<std::string, uint32_t> numbers;
  const auto number_of = [&](std::string name) {
    const auto [entry, is_new] =
        numbers.emplace(std::move(name), static_cast<uint32_t>(names_.size()));
    if (is_new) names_.push_back(entry->first);
    return entry->second;
  };
  for (const RootPlace& place : owners_.places)
    name_of_place_.push_back(number_of(roots.of(place)));
  several_ = number_of(std::string(kSeveralRoots));
}

uint32_t ExplainedBlocks::owner_of(BlockNumber block) const {
  const uint32_t owner = owners_.owners[block];
  if (owner == BlockOwners::kNobody || owners_.columns.is_mallocs_own(block)) return 0;
  return owner == BlockOwners::kSeveral ? several_ : name_of_place_[owner - 1];
}

}  // namespace heapsnap
