// The nodes of containers (container_storage.h), followed by the references between blocks.
#include <algorithm>
#include <array>
#include <span>

#include "references/container_storage.h"

namespace heapsnap {

namespace {

// What nodes take at least.
constexpr uint64_t kListNodeBytes = 24;
constexpr uint64_t kHashNodeBytes = 16;

}  // namespace

void ContainerStorage::follow_containers(const BlockEdges& edges) {
  // In the order of addresses, so that pages are read once: most of these are none.
  std::stable_sort(containers_.begin(), containers_.end(),
                   [](const Container& a, const Container& b) { return a.first < b.first; });
  std::erase_if(containers_, [this](const Container& one) { return !leads_back(one); });
  most_pages_ += cache_.pages_read();
  if (edges.is_cut_off()) return;
  for (const Container& container : containers_) {
    nodes_.truncate(0);
    if (!may_go_on()) return;
    if (!follow_container(edges, container)) continue;
    for (const BlockNumber node : nodes_) mark(node, container.nodes);
  }
}

// Whether the nodes at the ends of what is taken for a container lead back to it.
bool ContainerStorage::leads_back(const Container& container) {
  if (container.nodes == StorageKind::kHashNode) return true;
  const auto back = cache_.word(Address(container.first) + kWordBytes, kWordBytes);
  if (back != container.header) return false;
  return container.nodes != StorageKind::kListNode ||
         cache_.word(Address(container.last), kWordBytes) == container.header;
}

BlockNumber ContainerStorage::block_at(uint64_t address, uint64_t bytes) {
  const auto place = map_.find(address, hint_);
  const bool is_room = place && place->offset == 0 && map_.usable(Address(address), hint_) >= bytes;
  return is_room ? place->block : kNoBlock;
}

bool ContainerStorage::add_node(BlockNumber block) {
  if (block >= map_.first_slot() || !may_go_on()) return false;
  --nodes_left_;
  nodes_.push_back(block);
  return true;
}

ContainerStorage::NodeLinks ContainerStorage::links_of(const BlockEdges& edges, BlockNumber block) {
  NodeLinks links;
  links.fill(kNoBlock);
  edges.each(block, edges_hint_, [&links](uint32_t offset, BlockNumber target) {
    if (offset >= links.size()) return false;
    links[offset] = target;
    return true;
  });
  return links;
}

bool ContainerStorage::follow_container(const BlockEdges& edges, const Container& container) {
  switch (container.nodes) {
    case StorageKind::kListNode:
      return follow_list(edges, block_at(container.first, kListNodeBytes), container);
    case StorageKind::kTreeNode:
      return follow_tree(edges, block_at(container.first, kTreeNodeBytes), container);
    case StorageKind::kHashNode:
      return follow_chain(edges, block_at(container.first, kHashNodeBytes), container);
    default: return false;
  }
}

// | next | previous | element |, in a ring with the container.
bool ContainerStorage::follow_list(const BlockEdges& edges, BlockNumber first,
                                   const Container& container) {
  BlockNumber previous = kNoBlock;
  BlockNumber at = first;
  for (uint64_t i = 0; i < container.count; ++i) {
    if (at == kNoBlock || !add_node(at)) return false;
    const NodeLinks links = links_of(edges, at);
    if (i != 0 && links[1] != previous) return false;
    previous = at;
    at = links[0];
  }
  return previous == block_at(container.last, kListNodeBytes);
}

// | next | element |, and nothing after the last.
bool ContainerStorage::follow_chain(const BlockEdges& edges, BlockNumber first,
                                    const Container& container) {
  BlockNumber last = kNoBlock;
  BlockNumber at = first;
  for (uint64_t i = 0; i < container.count; ++i) {
    if (at == kNoBlock || !add_node(at)) return false;
    last = at;
    at = links_of(edges, at)[0];
  }
  return last != kNoBlock && cache_.word(map_.address_of(last), kWordBytes) == uint64_t{0};
}

// | colour | parent | left | right | element |; the container is the parent of the root.
bool ContainerStorage::follow_tree(const BlockEdges& edges, BlockNumber first,
                                   const Container& container) {
  struct Below {
    BlockNumber node;
    BlockNumber parent;
  };
  const BlockNumber last = block_at(container.last, kTreeNodeBytes);
  if (first == kNoBlock || last == kNoBlock) return false;
  LargeArray<Below> waiting;
  waiting.push_back({first, kNoBlock});
  bool has_last = false;
  while (!waiting.empty()) {
    const Below next = waiting.back();
    waiting.pop_back();
    if (nodes_.size() == container.count || !add_node(next.node)) return false;
    const NodeLinks links = links_of(edges, next.node);
    const uint8_t marks = tree_node(links, next.node, next.parent, container.header);
    if (marks == 0) return false;
    if ((marks & kHasLeft) != 0) waiting.push_back({links[2], next.node});
    if ((marks & kHasRight) != 0) waiting.push_back({links[3], next.node});
    if (next.node == last) has_last = (marks & kHasRight) == 0;
  }
  return has_last && nodes_.size() == container.count;
}

uint8_t ContainerStorage::tree_node(const NodeLinks& links, BlockNumber block, BlockNumber parent,
                                    uint64_t header) {
  uint8_t marks = tree_nodes_[block];
  if (parent == kNoBlock || marks == 0) {
    const Address address = map_.address_of(block);
    std::array<uint64_t, 4> words{};
    const auto bytes = std::as_writable_bytes(std::span(words));
    if (map_.usable(address, hint_) < kTreeNodeBytes ||
        cache_.read(address, bytes) != bytes.size() || (words[0] & UINT32_MAX) > 1 ||
        (parent == kNoBlock && words[1] != header)) {
      return 0;
    }
    marks = static_cast<uint8_t>(kMayBeTreeNode | (words[2] != 0 ? kHasLeft : 0) |
                                 (words[3] != 0 ? kHasRight : 0));
  }
  const bool is_node = (parent == kNoBlock || links[1] == parent) &&
                       ((marks & kHasLeft) != 0) == (links[2] != kNoBlock) &&
                       ((marks & kHasRight) != 0) == (links[3] != kNoBlock);
  return is_node ? marks : 0;
}

}  // namespace heapsnap
