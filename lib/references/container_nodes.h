// The nodes of containers (container_storage.h), followed by the references between blocks from
// where a container leads, on two threads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "base/large_memory.h"
#include "references/block_edges.h"
#include "references/block_map.h"
#include "references/node_set.h"
#include "references/piece_pipeline.h"
#include "references/reference.h"
#include "references/storage_kind.h"
#include "target/page_cache.h"

namespace heapsnap {

// What is taken for a container until its nodes say so.
struct NodeContainer {
  StorageKind nodes = StorageKind::kNone;
  uint64_t header = 0;  // address of the word that leads to the first node
  uint64_t first = 0;
  uint64_t last = 0;
  uint64_t count = 0;
  BlockNumber begins = kNoBlock;  // the block that the header is the beginning of, as in a node
  bool is_like_node = false;      // by the size of that block
};

// An order in which those that lead to the same nodes come together.
bool leads_before(const NodeContainer& a, const NodeContainer& b);
// Takes out of `containers`, in that order, all but one of the hash tables that lead to the same
// nodes. These do not lead back to a table, so what is left over of its words elsewhere, as of one
// that was moved, looks like it: such are followed once.
std::vector<NodeContainer> take_copies(std::vector<NodeContainer>& containers);

// In a node of a tree: | colour | parent | left | right |.
inline constexpr uint64_t kParentAt = 8;
inline constexpr uint64_t kTreeNodeBytes = 40;  // at least

// Of a block that may be such a node, as its words were seen: which of its children are not null.
enum TreeMark : uint8_t { kMayBeTreeNode = 1, kHasLeft = 2, kHasRight = 4 };
constexpr uint8_t tree_marks_of(uint64_t left, uint64_t right) {
  return static_cast<uint8_t>(kMayBeTreeNode | (left != 0 ? kHasLeft : 0) |
                              (right != 0 ? kHasRight : 0));
}

inline constexpr unsigned kNodeThreads = 2;

// At how much may be looked, by any thread. Each takes some looks at a time, and may have a few
// left when there are no more. So there are as many more than allowed, and whether the limit is
// reached depends on those that were used, and not on who has taken them.
class LookLimit {
 public:
  static constexpr uint64_t kMostTogether = 4096;

  explicit LookLimit(uint64_t looks) : left_(looks + kSpare) {}

  // So many looks, at most kMostTogether, or as many as are left; 0 from then on when there are
  // none.
  uint64_t take(uint64_t wanted);
  void give_back(uint64_t looks) { left_ += looks; }
  // When all have given back what they have not used.
  void settle() {
    if (left_ < kSpare) reach();
  }
  // No more looks.
  void reach() { is_reached_.store(true, std::memory_order_relaxed); }
  bool is_reached() const { return is_reached_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint64_t kSpare = kNodeThreads * kMostTogether;

  std::atomic<uint64_t> left_;
  std::atomic<bool> is_reached_ = false;
};

// What is known of the blocks that may be nodes. Any thread may ask.
class NodeSource {
 public:
  // All outlive this. `tree_marks`: of each block. After `most_reads` calls of read() the limit is
  // reached: pages that were read are not counted, as that depends on what each thread does when.
  NodeSource(const BlockMap& map, const BlockEdges& edges, std::span<const uint8_t> tree_marks,
             PageCache& cache, uint64_t most_reads, LookLimit& limit)
      : map_(map),
        edges_(edges),
        tree_marks_(tree_marks),
        cache_(cache),
        reads_left_(most_reads),
        limit_(limit) {}

  const BlockMap& map() const { return map_; }
  const BlockEdges& edges() const { return edges_; }
  uint8_t tree_marks(BlockNumber block) const { return tree_marks_[block]; }
  LookLimit& limit() { return limit_; }
  // From the target's memory; false where not all of it can be read, or too much was.
  bool read(Address from, std::span<std::byte> bytes);

 private:
  const BlockMap& map_;
  const BlockEdges& edges_;
  std::span<const uint8_t> tree_marks_;
  std::mutex reading_;
  PageCache& cache_;
  uint64_t reads_left_;
  LookLimit& limit_;
};

// Of one thread, in cache lines of its own: the nodes of one container after the other.
class alignas(64) NodeWalk {
 public:
  explicit NodeWalk(NodeSource& source) : source_(source), nodes_(source.map().blocks()) {}
  NodeWalk(const NodeWalk&) = delete;
  NodeWalk& operator=(const NodeWalk&) = delete;
  ~NodeWalk() { source_.limit().give_back(looks_); }

  // A node of a tree that is still to be looked at. `parent`: kNoBlock for the root, whose parent
  // is the container.
  struct Below {
    BlockNumber node = kNoBlock;
    BlockNumber parent = kNoBlock;
  };

  // Follows all nodes, in place of those of the container before; whether they are this one's.
  bool follow(const NodeContainer& container);
  // The same of a list that begins a block, after count_list() of all of these. A ring is followed
  // once: of a list that is in one with another, there may be no nodes.
  bool follow_ring(const NodeContainer& list);
  void count_list(const NodeContainer& list);
  // The same of a tree, a part at a time, after begin(). follow_levels() adds the nodes of `level`
  // and puts their children in their place, until there are none, or `enough`. False for what is no
  // such tree.
  void begin(const NodeContainer& container);
  bool follow_levels(const NodeContainer& tree, LargeArray<Below>& level, size_t enough);
  bool follow_below(const NodeContainer& tree, const Below& subtree);
  // The root of a tree whose root and last node are blocks.
  std::optional<Below> root_of(const NodeContainer& tree);
  // Whether the last node of a tree was among its nodes, with nothing behind it.
  bool has_last() const { return has_last_; }

  const NodeSet& nodes() const { return nodes_; }

 private:
  // Of a block: what its first words lead to; kNoBlock where that is no block's first byte.
  template <size_t kCount>
  using Links = std::array<BlockNumber, kCount>;
  using TreeLinks = Links<4>;

  // The block that begins there and has room for so many bytes; kNoBlock if none does.
  BlockNumber block_at(uint64_t address, uint64_t bytes);
  // False where it costs too much, or `block` is none of malloc's.
  bool may_look_at(BlockNumber block);
  // Adds a block to the nodes; false as above.
  bool add(BlockNumber block);
  template <size_t kCount>
  Links<kCount> links_of(BlockNumber block);
  // A ring that the first words of blocks make, each of which the next one's second word leads
  // back to.
  struct Ring {
    uint32_t others = 0;      // beside each one; 0: the blocks make none
    uint32_t lists = 0;       // counted: blocks that say that they are the list of the others
    bool has_unlike = false;  // one of these is not like a node
    bool is_followed = false;
  };
  // The ring that the block is in, or what it makes instead; null: it costs too much.
  Ring* ring_of(BlockNumber block);
  // Null where the list has not as many nodes as there are others in its ring, too.
  Ring* ring_of(const NodeContainer& list);
  bool follow_list(const NodeContainer& list);
  bool follow_chain(const NodeContainer& chain);
  bool follow_whole_tree(const NodeContainer& tree);
  bool visit(const NodeContainer& tree, const Below& next, LargeArray<Below>& children);
  // TreeMark bits of a node, from memory where the scan saw too little; 0 for none.
  uint8_t tree_marks(const TreeLinks& links, const Below& node);

  NodeSource& source_;
  BlockMap::Hint hint_;
  BlockEdges::Hint edges_hint_;
  uint64_t looks_ = 0;  // taken from the limit, not yet used
  NodeSet nodes_;
  LargeArray<Below> waiting_;
  // Each node of a list of numbers looks like a list of so many nodes.
  LargeArray<uint32_t> ring_number_;  // of each block, and one; 0: not known
  std::vector<Ring> rings_;
  BlockNumber last_ = kNoBlock;  // node of the tree
  bool has_last_ = false;
};

// Gets nodes of a container: all of them, or those of a part of a large tree, the others at other
// calls. `thread`, less than kNodeThreads, is another one for each call that runs at the same time.
using MarkNodes = std::function<void(unsigned thread, const NodeContainer&, const NodeSet&)>;

// Follows containers; `mark` gets the nodes of those that are what they were taken for, on either
// thread. The first and last nodes of lists, and the roots of trees, are known to lead back.
// `start`: empty for no other thread.
void follow_containers(NodeSource& source, std::span<const NodeContainer> containers,
                       const StartThread& start, const MarkNodes& mark);
// The same of lists that begin blocks, those that are not like nodes first. Any node whose element
// is as many as there are nodes looks like the list: of a few such none is more the list than the
// others, and `mark` gets each, the first one with the nodes, the others with none; of more,
// nothing is known.
void follow_lists_in_blocks(NodeSource& source, std::span<const NodeContainer> lists,
                            const MarkNodes& mark);

}  // namespace heapsnap
