#include "analysis/block_owners.h"

#include <map>

#include "analysis/owning_roots.h"

namespace heapsnap {

BlockOwners find_block_owners(const SnapshotStreams& streams, const ReferenceStreams& references) {
  BlockOwners found;
  found.columns = read_block_columns(streams, std::nullopt);
  OwnedBlocks owned = owned_blocks(streams, references, found.columns.sizes);
  found.garbage = std::move(owned.garbage);
  found.roots = find_leading_roots(owned.graph, owned.owning.roots, owned.owning.places.size(),
                                   found.columns.sizes);
  found.places = std::move(owned.owning.places);
  found.threads = std::move(owned.owning.threads);
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
  const uint32_t owner = owners_.roots.of_blocks[block];
  if (owner == LeadingRoots::kNobody || is_mallocs_own(block)) return 0;
  return LeadingRoots::is_several(owner) ? several_ : name_of_place_[owner - 1];
}

}  // namespace heapsnap
