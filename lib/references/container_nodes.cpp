#include "references/container_nodes.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "references/side_work.h"

namespace heapsnap {

namespace {

// What nodes take at least.
constexpr uint64_t kListNodeBytes = 24;
constexpr uint64_t kHashNodeBytes = 16;

// For less, no other thread is started.
constexpr uint64_t kManyNodes = 1 << 16;
// Trees of many nodes are followed in so many parts, or a few more.
constexpr size_t kSubtrees = 256;

bool is_large_tree(const NodeContainer& container) {
  return container.nodes == StorageKind::kTreeNode && container.count >= kManyNodes;
}

class ContainerWalks {
 public:
  ContainerWalks(NodeSource& source, const StartThread& start, const MarkNodes& mark)
      : source_(source), start_(start), mark_(mark), walks_{NodeWalk(source), NodeWalk(source)} {}

  // All but large trees, each on either thread.
  void follow(std::span<const NodeContainer> containers) {
    constexpr size_t kParts = 256;
    const size_t together = containers.size() / kParts + 1;
    uint64_t nodes = 0;
    for (const NodeContainer& one : containers) nodes += std::min(one.count, kManyNodes);
    std::atomic<size_t> next = 0;
    on_both(nodes >= kManyNodes ? start_ : StartThread(), [&](unsigned thread) {
      NodeWalk& walk = walks_.at(thread);
      for (size_t first = 0; (first = next.fetch_add(together)) < containers.size();) {
        const size_t count = std::min(together, containers.size() - first);
        for (const NodeContainer& one : containers.subspan(first, count)) {
          if (source_.limit().is_reached()) return;
          if (is_large_tree(one)) continue;
          if (walk.follow(one)) mark_(thread, one, walk.nodes());
        }
      }
    });
  }
  // Its first levels, then what lies below these on either thread.
  void follow_large_tree(const NodeContainer& tree) {
    for (NodeWalk& walk : walks_) walk.begin(tree);
    const auto root = walks_[0].root_of(tree);
    if (!root) return;
    LargeArray<NodeWalk::Below> level;
    level.push_back(*root);
    if (!walks_[0].follow_levels(tree, level, kSubtrees)) return;
    std::atomic<size_t> next = 0;
    std::atomic<bool> is_tree = true;
    on_both(level.empty() ? StartThread() : start_, [&](unsigned thread) {
      for (size_t i = 0; is_tree && (i = next++) < level.size();) {
        if (!walks_.at(thread).follow_below(tree, level[i])) is_tree = false;
      }
    });
    const uint64_t nodes = walks_[0].nodes().added() + walks_[1].nodes().added();
    if (!is_tree || nodes != tree.count || !(walks_[0].has_last() || walks_[1].has_last())) return;
    on_both(start_, [&](unsigned thread) { mark_(thread, tree, walks_.at(thread).nodes()); });
  }

 private:
  template <typename Work>
  void on_both(const StartThread& start, Work work) {
    SideWork other(start, [&] { work(1); });
    work(0);
    other.finish();
  }

  NodeSource& source_;
  const StartThread& start_;
  const MarkNodes& mark_;
  std::array<NodeWalk, kNodeThreads> walks_;
};

}  // namespace

void follow_containers(NodeSource& source, std::span<const NodeContainer> containers,
                       const StartThread& start, const MarkNodes& mark) {
  ContainerWalks walks(source, start, mark);
  walks.follow(containers);
  for (const NodeContainer& one : containers) {
    if (source.limit().is_reached()) return;
    if (is_large_tree(one)) walks.follow_large_tree(one);
  }
}

void follow_lists_in_blocks(NodeSource& source, std::span<const NodeContainer> lists,
                            const MarkNodes& mark) {
  NodeWalk walk(source);
  for (const NodeContainer& list : lists) walk.count_list(list);
  for (const NodeContainer& list : lists) {
    if (source.limit().is_reached()) return;
    if (walk.follow_ring(list)) mark(0, list, walk.nodes());
  }
}

bool leads_before(const NodeContainer& a, const NodeContainer& b) {
  return std::tuple(a.first, a.nodes, a.count) < std::tuple(b.first, b.nodes, b.count);
}

std::vector<NodeContainer> take_copies(std::vector<NodeContainer>& containers) {
  std::vector<NodeContainer> copies;
  std::vector<NodeContainer> others;
  for (const NodeContainer& one : containers) {
    const bool is_copy =
        one.nodes == StorageKind::kHashNode && !others.empty() && !leads_before(others.back(), one);
    (is_copy ? copies : others).push_back(one);
  }
  containers = std::move(others);
  return copies;
}

uint64_t LookLimit::take(uint64_t wanted) {
  uint64_t left = left_;
  uint64_t taken = 0;
  do {
    taken = std::min(left, wanted);
  } while (!left_.compare_exchange_weak(left, left - taken));
  if (taken == 0) reach();
  return is_reached() ? 0 : taken;
}

bool NodeSource::read(Address from, std::span<std::byte> bytes) {
  const std::lock_guard lock(reading_);
  if (reads_left_ == 0) {
    limit_.reach();
    return false;
  }
  --reads_left_;
  return cache_.read(from, bytes) == bytes.size();
}

void NodeWalk::begin(const NodeContainer& container) {
  nodes_.clear();
  const bool is_tree = container.nodes == StorageKind::kTreeNode;
  last_ = is_tree ? block_at(container.last, kTreeNodeBytes) : kNoBlock;
  has_last_ = false;
}

bool NodeWalk::follow(const NodeContainer& container) {
  begin(container);
  switch (container.nodes) {
    case StorageKind::kListNode: return follow_list(container);
    case StorageKind::kTreeNode: return follow_whole_tree(container);
    case StorageKind::kHashNode: return follow_chain(container);
    default: return false;
  }
}

BlockNumber NodeWalk::block_at(uint64_t address, uint64_t bytes) {
  const BlockMap& map = source_.map();
  const auto place = map.find(address, hint_);
  const bool is_room = place && place->offset == 0 && map.usable(Address(address), hint_) >= bytes;
  return is_room ? place->block : kNoBlock;
}

inline bool NodeWalk::may_look_at(BlockNumber block) {
  if (block >= source_.map().first_slot()) return false;
  if (looks_ == 0) looks_ = source_.limit().take(LookLimit::kMostTogether);
  if (looks_ == 0) return false;
  --looks_;
  return true;
}

bool NodeWalk::add(BlockNumber block) {
  if (!may_look_at(block)) return false;
  nodes_.add(block);
  return true;
}

template <size_t kCount>
NodeWalk::Links<kCount> NodeWalk::links_of(BlockNumber block) {
  Links<kCount> links;
  links.fill(kNoBlock);
  source_.edges().each(block, edges_hint_, [&links](uint32_t offset, BlockNumber target) {
    if (offset < kCount) links[offset] = target;
    return offset + 1 < kCount;
  });
  return links;
}

// What leads to blocks that were looked at before is in no ring with them, or it would be known.
NodeWalk::Ring* NodeWalk::ring_of(BlockNumber block) {
  if (ring_number_.empty()) ring_number_ = LargeArray<uint32_t>(source_.map().blocks());
  if (ring_number_[block] != 0) return &rings_[ring_number_[block] - 1];
  Ring ring;
  const auto number = static_cast<uint32_t>(rings_.size()) + 1;
  BlockNumber previous = kNoBlock;
  BlockNumber at = block;
  while (at != kNoBlock && ring_number_[at] == 0 && may_look_at(at)) {
    const auto links = links_of<2>(at);
    if (previous != kNoBlock && links[1] != previous) break;
    ring_number_[at] = number;
    previous = at;
    at = links[0];
    if (at == block) break;
    ++ring.others;
  }
  const bool is_closed = at == block && previous != kNoBlock && links_of<2>(block)[1] == previous;
  if (!is_closed) ring.others = 0;
  rings_.push_back(ring);
  return ring_number_[block] == 0 ? nullptr : &rings_.back();
}

NodeWalk::Ring* NodeWalk::ring_of(const NodeContainer& list) {
  Ring* const ring = ring_of(list.begins);
  const bool is_list = ring != nullptr && ring->others != 0 && ring->others == list.count;
  return is_list ? ring : nullptr;
}

void NodeWalk::count_list(const NodeContainer& list) {
  Ring* const ring = ring_of(list);
  if (ring == nullptr || (list.is_like_node && ring->has_unlike)) return;
  ++ring->lists;
  ring->has_unlike |= !list.is_like_node;
}

bool NodeWalk::follow_ring(const NodeContainer& list) {
  constexpr uint32_t kMostLists = 4;
  begin(list);
  Ring* const ring = ring_of(list);
  if (ring == nullptr || ring->lists > kMostLists) return false;
  if (list.is_like_node && ring->has_unlike) return false;
  return std::exchange(ring->is_followed, true) || follow_list(list);
}

// | next | previous | element |, in a ring with the container.
bool NodeWalk::follow_list(const NodeContainer& list) {
  BlockNumber previous = kNoBlock;
  BlockNumber at = block_at(list.first, kListNodeBytes);
  for (uint64_t i = 0; i < list.count; ++i) {
    if (at == kNoBlock || !add(at)) return false;
    const auto links = links_of<2>(at);
    if (i != 0 && links[1] != previous) return false;
    previous = at;
    at = links[0];
  }
  return previous == block_at(list.last, kListNodeBytes);
}

// | next | element |, and nothing after the last.
bool NodeWalk::follow_chain(const NodeContainer& chain) {
  BlockNumber last = kNoBlock;
  BlockNumber at = block_at(chain.first, kHashNodeBytes);
  for (uint64_t i = 0; i < chain.count; ++i) {
    if (at == kNoBlock || !add(at)) return false;
    last = at;
    at = links_of<1>(at)[0];
  }
  if (last == kNoBlock) return false;
  uint64_t next = 0;
  return source_.read(source_.map().address_of(last),
                      std::as_writable_bytes(std::span(&next, 1))) &&
         next == 0;
}

// | colour | parent | left | right | element |; the container is the parent of the root.
std::optional<NodeWalk::Below> NodeWalk::root_of(const NodeContainer& tree) {
  const BlockNumber first = block_at(tree.first, kTreeNodeBytes);
  if (first == kNoBlock || last_ == kNoBlock) return std::nullopt;
  return Below{first, kNoBlock};
}

bool NodeWalk::follow_whole_tree(const NodeContainer& tree) {
  const auto root = root_of(tree);
  return root && follow_below(tree, *root) && has_last_ && nodes_.added() == tree.count;
}

bool NodeWalk::follow_levels(const NodeContainer& tree, LargeArray<Below>& level, size_t enough) {
  LargeArray<Below> next;
  while (!level.empty() && level.size() < enough) {
    next.truncate(0);
    for (const Below& one : level) {
      if (!visit(tree, one, next)) return false;
    }
    std::swap(level, next);
  }
  return true;
}

bool NodeWalk::follow_below(const NodeContainer& tree, const Below& subtree) {
  waiting_.truncate(0);
  waiting_.push_back(subtree);
  while (!waiting_.empty()) {
    const Below next = waiting_.back();
    waiting_.pop_back();
    if (!visit(tree, next, waiting_)) return false;
  }
  return true;
}

bool NodeWalk::visit(const NodeContainer& tree, const Below& next, LargeArray<Below>& children) {
  if (nodes_.added() == tree.count || !add(next.node)) return false;
  const TreeLinks links = links_of<4>(next.node);
  const uint8_t marks = tree_marks(links, next);
  if (marks == 0) return false;
  if ((marks & kHasLeft) != 0) children.push_back({links[2], next.node});
  if ((marks & kHasRight) != 0) children.push_back({links[3], next.node});
  if (next.node == last_) has_last_ = (marks & kHasRight) == 0;
  return true;
}

uint8_t NodeWalk::tree_marks(const TreeLinks& links, const Below& node) {
  uint8_t marks = source_.tree_marks(node.node);
  if (marks == 0) {
    const Address address = source_.map().address_of(node.node);
    std::array<uint64_t, 4> words{};
    if (source_.map().usable(address, hint_) < kTreeNodeBytes ||
        !source_.read(address, std::as_writable_bytes(std::span(words))) ||
        (words[0] & UINT32_MAX) > 1) {
      return 0;
    }
    marks = tree_marks_of(words[2], words[3]);
  }
  const bool is_node = (node.parent == kNoBlock || links[1] == node.parent) &&
                       ((marks & kHasLeft) != 0) == (links[2] != kNoBlock) &&
                       ((marks & kHasRight) != 0) == (links[3] != kNoBlock);
  return is_node ? marks : 0;
}

}  // namespace heapsnap
