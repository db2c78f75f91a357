#include "analysis/owner_tree.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_map>

#include "analysis/block_facts.h"
#include "analysis/dominators.h"
#include "analysis/leading_roots.h"
#include "analysis/owning_roots.h"

namespace heapsnap {

namespace {

// Positions in blocks as two bytes: words, or one of these.
constexpr uint16_t kNotHeldDirectly = UINT16_MAX;
constexpr uint16_t kHeldFarIn = UINT16_MAX - 1;

// Where each block is held in its dominator.
class HeldAt final : public ReferenceSink {
 public:
  HeldAt(const DominatorTree& tree, const LargeArray<uint32_t>& positions)
      : tree_(tree), positions_(positions), words_(tree.size()) {
    std::fill(words_.begin(), words_.end(), kNotHeldDirectly);
  }
  void on_references(const ReferenceBatch& batch) override {
    constexpr size_t kAhead = 32;
    constexpr size_t kNear = 16;
    size_t i = 0;
    for (size_t source = 0; source < batch.counts.size(); ++source) {
      const uint32_t at = position_of(batch.first + source);
      for (const size_t end = i + batch.counts[source]; i < end; ++i) {
        if (i + kAhead < batch.targets.size()) {
          __builtin_prefetch(positions_.data() + batch.targets[i + kAhead]);
        }
        if (i + kNear < batch.targets.size()) {
          const uint32_t soon = position_of(batch.targets[i + kNear]);
          if (soon != UINT32_MAX) __builtin_prefetch(&tree_.dominators[soon]);
        }
        const uint32_t target = position_of(batch.targets[i]);
        if (at == UINT32_MAX || target == UINT32_MAX || target == at) continue;
        if (tree_.dominators[target] != at || words_[target] != kNotHeldDirectly) continue;
        words_[target] =
            batch.offsets[i] < kHeldFarIn ? static_cast<uint16_t>(batch.offsets[i]) : kHeldFarIn;
      }
    }
  }
  uint16_t word(uint32_t position) const { return words_[position]; }

 private:
  uint32_t position_of(uint64_t block) const {
    return block < positions_.size() ? positions_[block] : UINT32_MAX;
  }

  const DominatorTree& tree_;
  const LargeArray<uint32_t>& positions_;
  LargeArray<uint16_t> words_;
};

// Folds the tree of dominators.
class Folding {
 public:
  // `types` outlives it.
  Folding(OwnerGrouping by, OwningRoots owning, const std::vector<BlockType>& types)
      : by_(by), types_(types), node_of_place_(owning.places.size(), 0) {
    tree_.places = std::move(owning.places);
    tree_.threads = std::move(owning.threads);
    tree_.nodes.push_back({.kind = OwnerNode::Kind::kAll});
  }

  struct Block {
    BlockNumber number;
    uint64_t size;
    TypeNumber type;
    uint32_t stack;
    uint32_t held_at;
    bool has_references;
    bool is_mallocs_own;
  };

  uint32_t node_of_place(uint32_t place) {
    if (by_ != OwnerGrouping::kRoot) return 0;
    uint32_t& node = node_of_place_[place];
    if (node == 0) {
      node = static_cast<uint32_t>(tree_.nodes.size());
      tree_.nodes.push_back({.kind = OwnerNode::Kind::kPlace, .place = place});
    }
    return node;
  }

  // What the roots of a group lead to together.
  uint32_t node_of_group(uint32_t group) {
    const auto [entry, is_new] =
        node_of_group_.try_emplace(group, static_cast<uint32_t>(tree_.nodes.size()));
    if (is_new) tree_.nodes.push_back({.kind = OwnerNode::Kind::kSeveral, .place = group});
    return entry->second;
  }

  // The node of a block whose dominator is in the node `parent`.
  uint32_t add(uint32_t parent, const Block& block) {
    const uint64_t key = key_of(block, parent);
    uint32_t node = like_above(parent, key);
    if (node == 0) node = child(parent, key, block);
    OwnerNode& found = tree_.nodes[node];
    if (!block.is_mallocs_own) found.own.add(block.size);
    found.least_size = std::min(found.least_size, block.size);
    found.most_size = std::max(found.most_size, block.size);
    if (found.held_at != block.held_at) found.held_at = OwnerNode::kNotDirectly;
    if (by_ == OwnerGrouping::kStack && found.type != block.type) found.type = 0;
    return node;
  }

  OwnerTree finish() && {
    for (size_t i = tree_.nodes.size(); i-- > 0;) {
      OwnerNode& node = tree_.nodes[i];
      node.retained += node.own;
      if (i != 0) tree_.nodes[node.parent].retained += node.retained;
    }
    tree_.children.resize(tree_.nodes.size());
    for (uint32_t i = 1; i < tree_.nodes.size(); ++i) {
      // Roots that own nothing are not worth a word.
      if (tree_.nodes[i].retained.count == 0) continue;
      tree_.children[tree_.nodes[i].parent].push_back(i);
    }
    for (auto& children : tree_.children) {
      std::stable_sort(children.begin(), children.end(), [&](uint32_t a, uint32_t b) {
        return tree_.nodes[a].retained.bytes > tree_.nodes[b].retained.bytes;
      });
    }
    return std::move(tree_);
  }

 private:
  // Nodes, and how far they lie below each other: past these, blocks belong to what holds them.
  static constexpr size_t kMostNodes = 1 << 20;
  static constexpr uint8_t kDeepest = 24;
  // Kinds of keys.
  static constexpr uint64_t kByStack = 1;
  static constexpr uint64_t kByType = 2;
  static constexpr uint64_t kByShape = 3;
  static constexpr unsigned kKindShift = 62;

  struct Edge {
    uint32_t parent;
    uint64_t key;
    bool operator==(const Edge&) const = default;
  };
  struct EdgeHash {
    size_t operator()(const Edge& edge) const {
      const uint64_t mixed = (edge.key ^ (uint64_t{edge.parent} << 32)) * 0x9e3779b97f4a7c15;
      return mixed ^ (mixed >> 29);
    }
  };

  // Its magnitude, as a number of which no size of a structure is one.
  static uint64_t about(uint64_t size) {
    return kLargestStructure + static_cast<uint64_t>(std::bit_width(size));
  }

  // What blocks of one node have in common, as a number.
  uint64_t key_of(const Block& block, uint32_t parent) const {
    if (by_ == OwnerGrouping::kStack) return kByStack << kKindShift | block.stack;
    if (block.type != 0) return kByType << kKindShift | block.type;
    // Small structures of one size, arrays of about the same; texts and buffers of any size.
    uint64_t size = 0;
    if (block.has_references) {
      size = block.size <= kLargestStructure ? block.size : about(block.size);
    }
    const bool is_at_top = by_ == OwnerGrouping::kType && parent == 0;
    if (is_at_top && size == 0) size = about(block.size) + 64;
    const uint64_t held_at = is_at_top ? 0 : uint64_t{block.held_at};
    return kByShape << kKindShift | size << 32 | held_at;
  }

  // The node of the same sort at or above `parent`; 0: none. Where shapes are compared, not by
  // where blocks are held: a tree's left and right are of one sort.
  uint32_t like_above(uint32_t parent, uint64_t key) const {
    for (uint32_t at = parent; at < keys_.size() && keys_[at].depth > 0;
         at = tree_.nodes[at].parent) {
      const bool is_shape = key >> kKindShift == kByShape;
      const bool is_alike = is_shape ? keys_[at].key >> 32 == key >> 32 : keys_[at].key == key;
      if (is_alike && (at == parent || !is_everywhere(key) || is_held_alike(at, parent))) return at;
    }
    return 0;
  }

  // Lists and dicts of a runtime are everywhere, and so are nodes of containers: what an Order
  // holds in one is not what held the Order in another.
  bool is_everywhere(uint64_t key) const {
    const uint64_t type = key & ~(kByType << kKindShift);
    return key >> kKindShift == kByType && type < types_.size() &&
           (types_[type].source == TypeSource::kRuntime ||
            types_[type].source == TypeSource::kStructure);
  }
  // Whether `node` is held by blocks of the same sorts as a block that `parent` holds.
  bool is_held_alike(uint32_t node, uint32_t parent) const {
    constexpr int kHolders = 3;
    uint32_t one = tree_.nodes[node].parent;
    uint32_t other = parent;
    for (int i = 0; i < kHolders; ++i) {
      const NodeKey left = one < keys_.size() ? keys_[one] : NodeKey{};
      const NodeKey right = other < keys_.size() ? keys_[other] : NodeKey{};
      if ((left.depth == 0) != (right.depth == 0) || left.key != right.key) return false;
      one = tree_.nodes[one].parent;
      other = tree_.nodes[other].parent;
    }
    return true;
  }

  uint32_t child(uint32_t parent, uint64_t key, const Block& block) {
    if (last_ && last_->first == Edge{parent, key}) return last_->second;
    keys_.resize(std::max(keys_.size(), tree_.nodes.size()));
    const uint8_t depth = keys_[parent].depth;
    if (depth > 0 && (depth == kDeepest || tree_.nodes.size() >= kMostNodes)) return parent;
    const auto [entry, is_new] =
        by_edge_.try_emplace({parent, key}, static_cast<uint32_t>(tree_.nodes.size()));
    if (is_new) {
      tree_.nodes.push_back({.kind = OwnerNode::Kind::kBlocks,
                             .parent = parent,
                             .type = block.type,
                             .stack = block.stack,
                             .held_at = block.held_at,
                             .has_references = block.has_references,
                             .least_size = block.size,
                             .most_size = block.size,
                             .example = block.number});
      keys_.push_back({key, static_cast<uint8_t>(depth + 1)});
    }
    last_.emplace(Edge{parent, key}, entry->second);
    return entry->second;
  }

  OwnerGrouping by_;
  const std::vector<BlockType>& types_;
  OwnerTree tree_;
  struct NodeKey {
    uint64_t key = 0;
    uint8_t depth = 0;  // below a root; 0: no blocks
  };
  std::vector<NodeKey> keys_;  // as tree_.nodes
  std::vector<uint32_t> node_of_place_;
  std::unordered_map<uint32_t, uint32_t> node_of_group_;
  std::unordered_map<Edge, uint32_t, EdgeHash> by_edge_;
  std::optional<std::pair<Edge, uint32_t>> last_;
};

// The node of those blocks that the owner's memory spreads to: what leads to one of them is the
// most that there is to tell. 0: it has none.
uint32_t blocks_of_example(const OwnerTree& tree, uint32_t owner) {
  uint32_t at = owner;
  while (!tree.children[at].empty()) {
    const uint32_t next = tree.children[at].front();
    const bool are_blocks = tree.nodes[at].kind == OwnerNode::Kind::kBlocks;
    if (are_blocks && tree.nodes[next].retained.bytes < tree.nodes[at].retained.bytes / 2) break;
    at = next;
  }
  return tree.nodes[at].kind == OwnerNode::Kind::kBlocks ? at : 0;
}

// Of what several hold together there is less to tell, so one that holds half as much comes first.
std::vector<OwnerTree::Example> find_examples(const OwnerTree& tree) {
  constexpr uint64_t kWorthSaying = 10;  // one part in ten
  const std::vector<uint32_t>& owners = tree.children[0];
  const auto retained = [&tree](uint32_t owner) { return tree.nodes[owner].retained.bytes; };
  const auto is_single = [&tree](uint32_t owner) {
    return tree.nodes[owner].kind != OwnerNode::Kind::kSeveral;
  };
  std::vector<OwnerTree::Example> examples;
  const auto add = [&](uint32_t owner) {
    if (const uint32_t blocks = blocks_of_example(tree, owner)) examples.push_back({owner, blocks});
  };
  if (owners.empty()) return examples;
  const auto single = std::find_if(owners.begin(), owners.end(), is_single);
  const bool is_half = single != owners.end() && retained(*single) >= retained(owners.front()) / 2;
  const uint32_t first = is_half ? *single : owners.front();
  add(first);
  for (const uint32_t owner : owners) {
    if (examples.size() >= OwnerTree::kMostExamples) break;
    if (owner == first || !is_single(owner)) continue;
    if (retained(owner) < tree.in_use.bytes / kWorthSaying) break;
    add(owner);
  }
  return examples;
}

// Where each node's example is, once the pass over the blocks has come by; ascending.
class ExamplePlaces {
 public:
  explicit ExamplePlaces(std::vector<OwnerNode>& nodes) {
    for (OwnerNode& node : nodes) {
      if (node.kind == OwnerNode::Kind::kBlocks) wanted_.push_back(&node);
    }
    std::sort(wanted_.begin(), wanted_.end(),
              [](const OwnerNode* a, const OwnerNode* b) { return a->example < b->example; });
  }
  void see(const SnapshotBlock& block) {
    for (; next_ < wanted_.size() && wanted_[next_]->example <= block.number; ++next_) {
      if (wanted_[next_]->example == block.number) wanted_[next_]->example_at = block.address;
    }
  }

 private:
  std::vector<OwnerNode*> wanted_;
  size_t next_ = 0;
};

LargeArray<uint32_t> positions_of(const DominatorTree& tree, size_t nodes) {
  LargeArray<uint32_t> positions(nodes);
  std::fill(positions.begin(), positions.end(), UINT32_MAX);
  for (uint32_t at = 0; at < tree.size(); ++at) positions[tree.blocks[at]] = at;
  return positions;
}

}  // namespace

OwnerTree make_owner_tree(const SnapshotStreams& streams, const ReferenceStreams& references,
                          OwnerGrouping by) {
  ReferenceGraph graph = read_graph(references);
  const BlockNumber blocks = graph.blocks();
  const BlockSet has_references = blocks_with_references(graph);
  graph.release();
  const BlockColumns columns = read_block_columns(streams, blocks, by == OwnerGrouping::kStack);
  const unsigned word = word_size(streams.metadata->process.machine);
  OwnedBlocks owned = owned_blocks(streams, references, columns.sizes);
  OwningRoots& owning = owned.owning;
  const BlockSet garbage = std::move(owned.garbage);
  std::vector<std::vector<uint32_t>> groups;
  std::optional<SharedBlocks> shared;
  if (by == OwnerGrouping::kRoot) {
    LeadingRoots leading =
        find_leading_roots(owned.graph, owning.roots, owning.places.size(), columns.sizes);
    shared.emplace(leading);
    groups = std::move(leading.groups);
  }
  const BlockNumber top = append_places(owned.graph, owning.roots, owning.places.size());
  const DominatorTree tree = dominator_tree(std::move(owned.graph), top);
  const LargeArray<uint32_t> positions = positions_of(tree, size_t{top} + 1);
  HeldAt held_at(tree, positions);
  references.read_references(held_at);
  const LargeArray<TypeNumber> types = read_types(references, blocks);
  const std::vector<uint8_t> are_arrays = types_of_arrays(references.types);

  const BlockSet reached = std::move(owning.reached);
  Folding folding(by, std::move(owning), references.types);
  LargeArray<uint32_t> nodes(tree.size());
  for (uint32_t at = 1; at < tree.size(); ++at) {
    const BlockNumber number = tree.blocks[at];
    if (number >= blocks) {
      nodes[at] = folding.node_of_place(number - blocks);
      continue;
    }
    const uint32_t parent = tree.dominators[at];
    const BlockNumber holder = tree.blocks[parent];
    Folding::Block block{number,
                         columns.sizes[number],
                         types[number],
                         columns.stacks.empty() ? 0 : columns.stacks[number],
                         OwnerNode::kNotDirectly,
                         has_references.contains(number),
                         columns.is_mallocs_own(number)};
    const uint16_t words = held_at.word(at);
    if (holder < blocks && words != kNotHeldDirectly) {
      const bool is_array =
          columns.sizes[holder] > kLargestStructure || are_arrays.at(types[holder]) != 0;
      block.held_at = is_array || words == kHeldFarIn ? OwnerNode::kElement : words * word;
    }
    uint32_t holders = nodes[parent];
    if (holders == 0 && shared) holders = folding.node_of_group(shared->group_of(number));
    nodes[at] = folding.add(holders, block);
  }
  OwnerTree result = std::move(folding).finish();
  result.groups = std::move(groups);
  ExamplePlaces places(result.nodes);
  each_snapshot_block(streams, [&](const SnapshotBlock& block) {
    places.see(block);
    if (block.is_mallocs_own) return;
    result.in_use.add(block.usable);
    if (reached.contains(block.number)) return;
    (garbage.contains(block.number) ? result.garbage : result.leaked).add(block.usable);
  });
  result.examples = find_examples(result);
  return result;
}

}  // namespace heapsnap
