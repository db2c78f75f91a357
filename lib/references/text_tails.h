// The second half of the 16 bytes that a std::string has for a short text.
//
//   | characters | size | capacity | tail |     characters in a block of their own: the tail is not
//                                             used, an address there was left by somebody else
//   | ───┐       | size | text, up to 15  |   a short one: it leads to itself
//        └──────────────▲
//
// Structures of C have a text, its size and its capacity before a word that is in use. None of them
// leads to itself like that, and what is in use leads to no free memory. So a tail counts as unused
// where, at that word of blocks of that size, as many short texts lead to themselves as there are
// tails with an address, or in the nodes of containers where many of the addresses are of free
// memory. Of fewer short texts, the tails may be those of a structure beside some strings.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "references/block_map.h"
#include "references/reference.h"
#include "references/storage_kind.h"
#include "target/page_cache.h"

namespace heapsnap {

struct TextTail {
  UnusedWord word;
  BlockNumber text = kNoBlock;  // with the characters
  uint32_t words = 0;           // of the block that the string lies in
  bool is_to_block = false;     // the word leads to a block in use
  bool is_to_own = false;       // into the block that the string lies in
};

// Where it lies, in words from the beginning of the string.
inline constexpr uint32_t kTailInString = 3;
// Larger blocks have none: they are compared with others of their size.
inline constexpr uint64_t kMostWordsWithText = 64;

// Those of `tails` that lead to blocks and are not used, ascending, each once. `kind_of`: of all
// blocks, by what lies in them. Reads a bounded number of words through `cache`.
std::vector<UnusedWord> unused_tails(const std::vector<TextTail>& tails, const BlockMap& map,
                                     const std::function<StorageKind(BlockNumber)>& kind_of,
                                     PageCache& cache);

}  // namespace heapsnap
