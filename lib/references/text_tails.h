// The second half of the 16 bytes that a std::string has for a short text.
//
//   | characters | size | capacity | tail |     characters in a block of their own: the tail is not
//                                             used, an address there was left by somebody else
//   | ───┐       | size | text, up to 15  |   a short one: it leads to itself
//        └──────────────▲
//
// Structures of C have a text, its size and its capacity before a word that is in use. None of them
// leads to itself like that, and what is in use leads to no free memory. But structures and objects
// with strings may be of one size: only the nodes of one container are certainly of one type, but
// for intrusive lists of objects of several classes. So a tail counts as unused in nodes of
// containers, each container and size by itself, where at that word others of these nodes have
// short texts, or where many of the addresses are of free memory; or where one of these holds of
// nodes that are 16 bytes smaller: malloc gives a few more than they were asked for.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/large_memory.h"
#include "references/block_map.h"
#include "references/container_nodes.h"
#include "references/node_set.h"
#include "references/reference.h"
#include "references/storage_kind.h"
#include "target/page_cache.h"

namespace heapsnap {

struct TextTail {
  UnusedWord word;
  uint32_t words = 0;           // of the block that it lies in
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

  // Nodes of a container: all of them, or some, and the others by other calls. From any thread.
  void add(const NodeContainer& container, const NodeSet& nodes);
  // The words that are not used, of those that lead to blocks, ascending, each once: the same
  // whatever thread came first. Reads a bounded number of words through `cache`.
  std::vector<UnusedWord> find_unused(const BlockMap& map, PageCache& cache);

 private:
  // Where tails are compared: at one word of nodes of one size.
  struct Place {
    uint32_t words = 0;  // of the node
    uint32_t word = 0;   // the tail
    auto operator<=>(const Place&) const = default;
  };
  // Of the tails at a place.
  struct Evidence {
    uint64_t tails = 0;
    uint64_t free = 0;  // of these: that lead to no block in use
    uint64_t own = 0;   // that lead into the block they lie in
    bool is_unused = false;

    bool is_left_over() const;
  };
  // Of a container.
  struct LikeNodes {
    std::vector<BlockNumber> with_tails;
    std::vector<BlockNumber> some;  // with or without: all of few, some of many
    std::map<Place, Evidence> places;
  };
  class ShortTexts;

  template <typename Visit>
  void each_tail(const LikeNodes& nodes, Visit visit) const;
  void find_places(LikeNodes& nodes) const;
  static bool is_unused(const LikeNodes& nodes, const TextTail& tail);

  std::vector<TextTail> tails_;   // ascending by `word`
  LargeArray<uint8_t> has_tail_;  // of each block
  std::mutex mutex_;
  std::map<std::pair<StorageKind, uint64_t>, LikeNodes> containers_;  // by where it lies
};

}  // namespace heapsnap
