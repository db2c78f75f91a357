#include "analysis/owned_nodes.h"

#include <algorithm>
#include <span>
#include <utility>

#include "analysis/reachability.h"
#include "analysis/some_references.h"

namespace heapsnap {

OwnedNodes::OwnedNodes(const ReferenceStreams& references, const std::vector<Root>& roots,
                       BlockNumber blocks, unsigned word)
    : references_(references), word_(word) {
  if (references.containers.empty()) return;
  kinds_ = LargeArray<Kind>(blocks);
  read_types();
  with_containers_ = BlockSet(blocks);
  lists_ = BlockSet(blocks);
  held_lists_ = BlockSet(blocks);
  const std::vector<ContainerWords>& all = references.containers;
  size_t in_blocks = 0;
  for (; in_blocks < all.size() && all[in_blocks].block < blocks; ++in_blocks) {
    if (all[in_blocks].word == 0) lists_.insert(all[in_blocks].block);
    if (with_containers_.insert(all[in_blocks].block)) starts_.push_back(in_blocks);
  }
  starts_.push_back(in_blocks);
  with_containers_.count();
  std::vector<BlockNumber> of_containers;
  std::vector<std::pair<BlockNumber, BlockNumber>> of_lists;  // and where they lead to
  const ReferenceGraph links =
      graph_of_some(references, [&](const ReferenceBatch& batch, uint64_t source, size_t i) {
        const BlockNumber target = batch.targets[i];
        if (lists_.has(target) && !is_nodes_own(batch, source, i)) held_lists_.insert(target);
        if (!is_node(target)) return false;
        if (is_link(batch, source, i)) return true;
        const ContainerWords* const words = container_of(source, batch.offsets[i]);
        if (words == nullptr) return false;
        if (words->word == 0) {
          of_lists.emplace_back(words->block, target);
        } else {
          of_containers.push_back(target);
        }
        return false;
      });
  for (const Root& root : roots) {
    if (lists_.has(root.target)) held_lists_.insert(root.target);
    if (is_node(root.target) && is_of_container(root)) of_containers.push_back(root.target);
  }
  for (const auto& [list, node] : of_lists) {
    if (held_lists_.has(list)) of_containers.push_back(node);
  }
  nodes_ = reachable_blocks(links, of_containers);
}

void OwnedNodes::read_types() {
  std::vector<Kind> kinds;
  for (const BlockType& type : references_.types) {
    const NodeLinks links = node_links(type);
    const bool are_buckets = links.are_all && links.lead_to_head;
    kinds.push_back(are_buckets ? kBuckets : links.words);
  }
  references_.read_block_types([&](BlockNumber first, std::span<const TypeNumber> types) {
    for (size_t i = 0; i < types.size() && first + i < kinds_.size(); ++i) {
      if (types[i] < kinds.size()) kinds_[first + i] = kinds[types[i]];
    }
  });
}

bool OwnedNodes::is_nodes_own(const ReferenceBatch& batch, uint64_t source, size_t i) const {
  const uint32_t offset = batch.offsets[i];
  return batch.interior[i] == 0 && offset < kNodeWords && is_node(source) &&
         (kind_of(source) >> offset & 1) != 0;
}

bool OwnedNodes::is_link(const ReferenceBatch& batch, uint64_t source, size_t i) const {
  return kind_of(source) == kind_of(batch.targets[i]) && is_nodes_own(batch, source, i);
}

const ContainerWords* OwnedNodes::container_of(uint64_t source, uint32_t offset) const {
  if (!with_containers_.has(source)) return nullptr;
  const auto block = static_cast<BlockNumber>(source);
  const BlockNumber rank = block - with_containers_.rank_missing(block);
  const ContainerWords* const words =
      last_until(starts_[rank], starts_[rank + 1], {block, offset, {}, UINT32_MAX});
  return words != nullptr && offset - words->word < words->count ? words : nullptr;
}

bool OwnedNodes::is_of_container(uint64_t source, uint32_t offset) const {
  const ContainerWords* const words = container_of(source, offset);
  return words != nullptr && (words->word != 0 || held_lists_.has(words->block));
}

bool OwnedNodes::is_of_container(const Root& root) const {
  if (root.place >= references_.places.size()) return false;
  const Address at = references_.places[root.place].begin + root.offset;
  const ContainerWords* const words =
      last_until(starts_.back(), references_.containers.size(), {kNoBlock, 0, at, UINT32_MAX});
  return words != nullptr && words->block == kNoBlock && (at - words->at) / word_ < words->count;
}

const ContainerWords* OwnedNodes::last_until(size_t begin, size_t end,
                                             const ContainerWords& wanted) const {
  const std::span all = std::span(references_.containers).subspan(begin, end - begin);
  const auto next = std::upper_bound(all.begin(), all.end(), wanted);
  return next == all.begin() ? nullptr : &*std::prev(next);
}

bool OwnedNodes::is_beside(const ReferenceBatch& batch, uint64_t source, size_t i) const {
  if (!nodes_.has(batch.targets[i]) || held_lists_.has(batch.targets[i])) return false;
  const bool is_own_link = nodes_.has(source) && is_link(batch, source, i);
  return !is_own_link && kind_of(source) != kBuckets && !is_of_container(source, batch.offsets[i]);
}

std::vector<bool> OwnedNodes::are_beside(const std::vector<Root>& roots) const {
  std::vector<bool> result;
  result.reserve(roots.size());
  for (const Root& root : roots) {
    result.push_back(nodes_.has(root.target) && !held_lists_.has(root.target) &&
                     !is_of_container(root));
  }
  return result;
}

}  // namespace heapsnap
