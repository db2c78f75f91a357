// The objects of Ruby in a snapshot, and what each of them refers to: the graph of references
// without the blocks of malloc that lie between objects.
//
//   slot  Order ──► block of malloc ──► slot  String   Order refers to the String and the Hash;
//               └─► slot  Hash                         the block counts to the Order's bytes
//
// The second word of a slot is its class, and no reference. A class is called what the constant is
// called that leads to it; where several do, as the objects of it are.
//
// A block that several objects lead to is passed from each of them, and counts to the first one.
// One that is no buffer of Ruby's, as those of extensions are, is passed from no more than
// kMostPasses. Of roots it is passed from the first one alone: each call of a thread has the
// address of the interpreter's state, which leads to most objects.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/block_facts.h"
#include "analysis/block_set.h"
#include "analysis/reference_graph.h"
#include "analysis/reference_streams.h"
#include "analysis/snapshot_streams.h"
#include "base/address.h"
#include "base/large_memory.h"
#include "references/block_type.h"
#include "references/root.h"

namespace heapsnap {

struct RubyObjectRow {
  BlockNumber block = kNoBlock;
  Address at;
  uint64_t slot_bytes = 0;
  uint64_t bytes = 0;                       // with blocks of malloc that count to it
  const BlockType* type = nullptr;          // its class's name, and builtin
  BlockNumber of_class = kNoBlock;          // kNoBlock: it has none
  std::string_view name;                    // of a class or module; empty: not known
  std::span<const BlockNumber> references;  // objects, ascending, each once
};

// A root that leads to objects, directly or through blocks of malloc.
struct RubyRoot {
  const RootPlace* place = nullptr;
  std::span<const BlockNumber> references;
};

class RubyObjects {
 public:
  static constexpr uint8_t kMostPasses = 16;

  // Reads all that it needs; `references` outlives it. Throws Error{kBadInput} when blocks and
  // references do not fit together. About 30 bytes a block where each has one reference and a half.
  RubyObjects(const SnapshotStreams& streams, const ReferenceStreams& references);

  uint64_t size() const { return objects_; }
  // Where an object's slot begins.
  Address address_of(BlockNumber block) const { return Address(addresses_[block - first_slot_]); }
  // Classes and modules by name, ascending; several constants may lead to one.
  const std::map<std::string, BlockNumber>& classes() const { return class_at_; }

  // Calls receive(root) for each place that leads to objects: what lasts longer first, and of
  // one kind in the order of places.
  template <typename Receive>
  void each_root(Receive receive);
  // Calls receive(object) for all, ascending. The spans live only during the call.
  template <typename Receive>
  void each_object(Receive receive);

 private:
  bool is_object(BlockNumber block) const {
    return block >= first_slot_ && !type_of(block).builtin.empty();
  }
  bool is_module(BlockNumber block) const;
  const BlockType& type_of(BlockNumber block) const { return references_.types[types_[block]]; }
  void read_addresses(const SnapshotStreams& streams);
  void read_classes();
  void name_by_constants();
  void name_by_types();
  void find_constants();
  // By how long places last, and by place.
  void sort_roots();
  // Nothing is passed yet, and counts to nobody.
  void start_passes(uint8_t most);
  // Adds the objects that these lead to, to found_.
  void follow(std::span<const BlockNumber> targets);
  void sort_found();
  RubyObjectRow row_of(BlockNumber block);
  bool next_root(size_t& at, RubyRoot& root);

  const ReferenceStreams& references_;
  ReferenceGraph graph_;
  BlockColumns columns_;
  BlockNumber first_slot_ = 0;
  uint64_t objects_ = 0;
  LargeArray<TypeNumber> types_;
  LargeArray<uint64_t> addresses_;    // of slots
  LargeArray<BlockNumber> class_of_;  // of slots
  std::vector<Root> roots_;           // those of a place together
  std::map<std::string, BlockNumber> class_at_;
  std::map<BlockNumber, std::string> name_of_;
  // Of classes and modules: what their variables lead to, which are roots. Ascending.
  std::vector<std::pair<BlockNumber, BlockNumber>> constants_;
  LargeArray<uint8_t> passes_;  // of each block
  uint8_t most_passes_ = kMostPasses;
  LargeArray<uint32_t> search_;  // in which it was passed last; 0: in none
  uint32_t searches_ = 0;
  BlockSet counted_;  // blocks that count to an object
  bool is_counting_ = false;
  uint64_t bytes_ = 0;  // of the blocks that the last search counted
  std::vector<BlockNumber> waiting_;
  std::vector<BlockNumber> found_;
};

template <typename Receive>
void RubyObjects::each_root(Receive receive) {
  RubyRoot root;
  start_passes(1);
  for (size_t at = 0; next_root(at, root);) {
    if (!root.references.empty()) receive(root);
  }
}

template <typename Receive>
void RubyObjects::each_object(Receive receive) {
  start_passes(kMostPasses);
  for (BlockNumber block = first_slot_; block < graph_.blocks(); ++block) {
    if (is_object(block)) receive(row_of(block));
  }
}

}  // namespace heapsnap
