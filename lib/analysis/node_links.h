// The words by which the nodes of libstdc++'s containers lead to each other, as the type of a block
// says it:
//
//   std::list                     | next   | previous |
//   std::forward_list             | next   |
//   std::map, std::set            | colour | parent   | left | right |
//   std::unordered_map/set        | next   |
//   buckets, map of a std::deque  all words
//
// The parent of a tree's root is the tree itself, a list is a circle through its own words, and a
// bucket leads to what is before its first node:
//
//   std::set | root | ... |  ──►  node | parent | ...        parent: the std::set
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "references/block_type.h"

namespace heapsnap {

// The words of a node that may be links are among its first ones.
inline constexpr size_t kNodeWords = 4;

struct NodeLinks {
  uint8_t words = 0;          // a bit for each of the first kNodeWords
  bool are_all = false;       // every word of the block
  bool lead_to_head = false;  // one of the container's also leads to the container itself

  bool contain(size_t word) const {
    return are_all || (word < kNodeWords && (words >> word & 1) != 0);
  }
};

// Whether the type is known by what lies in the blocks, or by debug information.
NodeLinks node_links(const BlockType& type);
// Of a node's type by debug information: the name of its template, with "<" at its end; else empty.
std::string_view node_template(const BlockType& type);

}  // namespace heapsnap
