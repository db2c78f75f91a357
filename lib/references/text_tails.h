// The second half of the 16 bytes that a std::string has for a short text.
//
//   | characters | size | capacity | tail |     characters in a block of their own: the tail is not
//                                             used, an address there was left by somebody else
//   | ───┐       | size | text, up to 15  |   a short one: it leads to itself
//        └──────────────▲
//
// Structures of C have a text, its size and its capacity before a word that is in use. None of them
// leads to itself like that, and what is in use leads to no free memory. But structures and objects
// with strings may be of one size: only the nodes of one container are certainly of one type. So a
// tail counts as unused in nodes of containers, each by itself, where at that word others of its
// nodes have short texts, or where many of the addresses are of free memory.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "base/large_memory.h"
#include "references/block_map.h"
#include "references/node_set.h"
#include "references/reference.h"
#include "target/page_cache.h"

namespace heapsnap {

struct TextTail {
  UnusedWord word;
  BlockNumber text = kNoBlock;  // with the characters
  bool is_to_block = false;     // the word leads to a block in use
  bool is_to_own = false;       // into the block that the string lies in
};

// Where it lies, in words from the beginning of the string.
inline constexpr uint32_t kTailInString = 3;
// Larger blocks have none: they are compared with others of their size.
inline constexpr uint64_t kMostWordsWithText = 64;

class TextTails {
 public:
  // In blocks with numbers below `blocks`.
  TextTails(std::vector<TextTail> tails, BlockNumber blocks);

  // All nodes of one container, or many of them. From any thread.
  void add_container(const NodeSet& nodes);
  // The words that are not used, of those that lead to blocks, ascending, each once. Reads a
  // bounded number of words through `cache`.
  std::vector<UnusedWord> find_unused(const BlockMap& map, PageCache& cache);

 private:
  // Some of a container's nodes.
  struct LikeNodes {
    std::vector<BlockNumber> with_tails;
    std::vector<BlockNumber> some;  // with or without
  };
  class ShortTexts;

  void find_unused(const LikeNodes& nodes, ShortTexts& short_texts,
                   std::vector<UnusedWord>& unused);

  std::vector<TextTail> tails_;   // ascending by `word`
  LargeArray<uint8_t> has_tail_;  // of each block
  std::mutex mutex_;
  std::vector<LikeNodes> containers_;
};

}  // namespace heapsnap
