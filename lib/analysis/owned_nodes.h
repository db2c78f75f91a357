// The nodes of containers of libstdc++ whose own words are known (ContainerWords). A container owns
// its nodes alone: whatever else leads to one is an iterator, or left over.
//
//   std::list  | first | last |  ──►  node  ◄──►  node  ◄──►  node        own words, and links
//                                                  ▲
//                    std::unordered_map's node ────┘                      beside the container
//
// Nothing tells a list that begins a block from a node of it whose element is as many as the others
// are. One to which nothing else than nodes leads is none; what is one may be a node as well.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/block_set.h"
#include "analysis/node_links.h"
#include "analysis/reference_streams.h"
#include "base/large_memory.h"

namespace heapsnap {

class OwnedNodes {
 public:
  // Reads all references once, if there are containers. `references` must outlive it; `roots` are
  // of its places; `word`: bytes of one.
  OwnedNodes(const ReferenceStreams& references, const std::vector<Root>& roots, BlockNumber blocks,
             unsigned word);

  // Whether reference `i` of a batch, from the block `source`, leads to a node without being its
  // container's.
  bool is_beside(const ReferenceBatch& batch, uint64_t source, size_t i) const;
  // The same of each root.
  std::vector<bool> are_beside(const std::vector<Root>& roots) const;

 private:
  // Of a block: NodeLinks::words, which is the same only for the nodes of a hash table and those of
  // a std::forward_list, of which nothing is known here; or one of these.
  using Kind = uint8_t;
  static constexpr Kind kOther = 0;
  static constexpr Kind kBuckets = 0x80;

  void read_types();
  Kind kind_of(uint64_t block) const { return block < kinds_.size() ? kinds_[block] : kOther; }
  bool is_node(uint64_t block) const {
    return kind_of(block) != kOther && kind_of(block) != kBuckets;
  }
  // Whether a node leads to the next one, or to the one before, or to its container.
  bool is_nodes_own(const ReferenceBatch& batch, uint64_t source, size_t i) const;
  // The same, not to its container.
  bool is_link(const ReferenceBatch& batch, uint64_t source, size_t i) const;
  // Of the containers from `begin` to `end`, the last one that is not behind `wanted`, or null.
  const ContainerWords* last_until(size_t begin, size_t end, const ContainerWords& wanted) const;
  // The words of a container of which the one at `offset` is one; null if there are none.
  const ContainerWords* container_of(uint64_t source, uint32_t offset) const;
  bool is_of_container(uint64_t source, uint32_t offset) const;
  bool is_of_container(const Root& root) const;

  const ReferenceStreams& references_;
  unsigned word_;
  LargeArray<Kind> kinds_;  // empty where there are no containers
  BlockSet with_containers_;
  std::vector<size_t> starts_;  // of each of these blocks' containers; and of those outside
  BlockSet lists_;              // blocks that a list begins
  BlockSet held_lists_;         // those to which something else than nodes leads
  BlockSet nodes_;              // of these containers
};

}  // namespace heapsnap
