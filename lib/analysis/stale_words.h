// Words that may be left over: freed memory that is used again keeps words of its last owner where
// nobody writes to, such as a buffer that is not full, or what lies behind the end of a text.
//
//   blocks of 104 bytes     | a | b | 7 |     of 1,000 such blocks, three hold an address in
//                           | c | d | ──►     the last word
//
// A word may be stale when it is
//   - among the characters of a string, in the buffer of a file, or among numbers that are no
//     addresses by their type;
//   - in what malloc gave a container beyond what it asked for, behind a vector's last element, or
//     in what a deque does not use (SlackWords), unless most blocks of that size whose type is not
//     known hold an address there: then it may be the chunk of an arena, or a node with an array,
//     that three pointers lead into as into a vector;
//   - in what malloc gave an object beyond its size by debug information, unless most of them hold
//     an address there;
//   - in an object that is destroyed, whose memory a std::weak_ptr keeps (SlackWords::all_of);
//   - in the half of a std::string's buffer that it does not use (UnusedWord);
//   - one at whose place fewer than one in eight of the blocks of that type and size hold an
//     address. Where no type is known: of those of that size whose type is not told, either, and
//     which are no texts: texts of 40 bytes say nothing of a Server of 40 bytes;
//   - in a node of which malloc gave 16 bytes more than of those beside it in its container, as it
//     does now and then, and of those few hold an address at its place, or none has one.
// It is not
//   - where debug information declares a pointer: one that is null in most objects is one, too;
//   - where a std::vector keeps an element, by its three pointers;
//   - in a block of which a language runtime has said which words are references
//     (BlockType::is_exact);
//   - where a node of a container leads to the next one (node_links.h): a container would change
//     its shape as it grows to more than one in eight of the blocks of its nodes' size;
//   - where a block of no known type leads to one of its size, or 16 bytes smaller, and blocks of
//     that smaller size hold an address at that place: they may be nodes of a list of the program's
//     own, of which malloc gave 16 bytes more;
//   - the word by which the block that a container itself lies in leads to such a node, when
//     another node leads back to the block:
//
//   new std::set   | root | ... |  ──►  node  ──► ... ──►  node | parent |  ──►  the block
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/block_facts.h"
#include "analysis/node_links.h"
#include "analysis/reference_streams.h"

namespace heapsnap {

// Whether words of blocks of that type are no addresses: behind the end of a text, or of numbers,
// lies what was there before.
bool has_no_addresses(const BlockType& type);
// Whether so few blocks of a kind hold an address at a place that it may be left over there.
bool is_rarely_held(uint64_t holding, uint64_t blocks);

class StaleWords {
 public:
  // Reads all references once. `sizes`: of all blocks, must outlive it. `word`: bytes of one.
  StaleWords(const ReferenceStreams& references, const BlockSizes& sizes, unsigned word);

  // Of a word of the block `source` that holds an address in `target`; `offset` in words.
  bool contains(uint64_t source, uint32_t offset, BlockNumber target) const;

 private:
  class Counting;
  using KindNumber = uint16_t;  // index into kinds_
  static constexpr KindNumber kNotCompared = 0;
  // Blocks of one size, and of one type where it is known, which are compared.
  struct Kind {
    uint64_t blocks = 0;
    size_t words = 0;  // of a block
    size_t first = 0;  // of them in holding_
    // All of the size, where these count for that, too.
    KindNumber of_size = kNotCompared;
    // Nodes of the same type that are 16 bytes smaller, where these are few.
    KindNumber smaller = kNotCompared;
    uint64_t pointers = 0;           // BlockType's
    size_t object_words = SIZE_MAX;  // as far as an object reaches, where that is known
  };

  // Blocks of a size and no known type, without slack words, of which others have some.
  struct OfSize {
    uint32_t first = UINT32_MAX;  // of these words
    uint64_t blocks = 0;
    std::vector<uint64_t> holding;  // by word from `first` on: how many hold an address there
  };

  void read_types(const ReferenceStreams& references);
  // `is_told`: the type is, by the program or its runtime.
  void assign_kind(BlockNumber block, TypeNumber number, const BlockType& type, bool is_told);
  // The references from `begin` to `end` are of the block `i` of the batch.
  void find_heads(const ReferenceBatch& batch, size_t i, size_t begin, size_t end);
  OfSize* compared_with_slack(uint64_t block);
  void count_slack_blocks();
  void count_in_slack(const ReferenceBatch& batch, size_t i, size_t begin, size_t end);
  void find_larger_nodes(const ReferenceBatch& batch, size_t i, size_t begin, size_t end);
  bool is_of_container(BlockNumber block) const;
  const Kind& kind_of(uint64_t block) const;
  size_t object_words(uint64_t object, uint64_t usable) const;
  void find_smaller_kinds(const std::vector<BlockType>& types);
  // Of two nodes, one of which leads to the other.
  void compare_sizes(BlockNumber node, BlockNumber next);
  // Whether debug information declares it to be a pointer.
  bool is_declared(BlockNumber block, uint32_t offset) const;
  bool is_rare(BlockNumber block, uint32_t offset) const;
  // Whether a block of no known type, of which malloc gave 16 bytes more, may lead to one like it.
  bool may_be_link_of_larger(BlockNumber block, uint32_t offset, BlockNumber target) const;
  bool is_behind_object(BlockNumber block, uint32_t offset) const;
  bool is_slack(BlockNumber block, uint32_t offset) const;
  bool is_unused(BlockNumber block, uint32_t offset) const;

  const BlockSizes& sizes_;
  unsigned word_;
  std::vector<KindNumber> kind_of_;  // by block
  std::vector<Kind> kinds_;
  std::map<std::pair<TypeNumber, size_t>, KindNumber> typed_kinds_;  // by type and words
  std::vector<uint64_t> holding_;  // blocks, by kind and word: those that hold an address there
  bool has_smaller_kinds_ = false;
  // Nodes of a container whose other nodes are of kind_of(node).smaller.
  std::set<BlockNumber> larger_nodes_;
  BlockSet texts_;
  BlockSet arrays_;  // of vectors
  BlockSet with_slack_;
  std::vector<SlackWords> slack_words_;
  BlockSet with_unused_;
  std::vector<UnusedWord> unused_words_;
  BlockSet typed_;                                    // none where nothing has slack words
  std::unordered_map<uint64_t, OfSize> slack_sizes_;  // by bytes
  BlockSet exact_;
  std::array<BlockSet, kNodeWords> links_;  // by word: the blocks of which it is a link
  BlockSet nodes_;                          // and their like, that lead to a container itself
  BlockSet heads_;                          // blocks that nodes_ lead to, which are no nodes
};

}  // namespace heapsnap
