// Blocks in which containers of libstdc++ keep their elements, found by the containers.
//
// A container is known by words beside each other, wherever they lie, that agree with each other
// and with the blocks that they lead to:
//
//   std::filebuf         six pointers into the buffer ... | buffer | its size |
//   std::vector          | begin | end | end of capacity |        end of capacity: the block's end
//   std::string          | characters | size | capacity |         the block's size, a 0 at the end;
//                                                                 no binary data of 4 KiB and more
//   std::u16string, ...                                           and no 0 before
//   std::deque           | map | its size | first element ... | end ... |    a buffer for each word
//                                                                 of the map between these
//   std::list            | first | last | size |                  that many nodes, to and fro
//   std::map, std::set   | 0 | root | leftmost | rightmost | size |        that many nodes
//   std::unordered_map   | buckets | their number | first | size | 1.0 | their number |
//   std::unordered_set                                            that many nodes
//
// Nodes are followed by the references between blocks; only the first and the last one are read
// again, and those for which the scan saw too little. If all together take more looks than a few
// for each block, no node is known. Where some of the memory is in swap, neither nodes nor
// characters are.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/large_memory.h"
#include "references/block_edges.h"
#include "references/block_map.h"
#include "references/container_nodes.h"
#include "references/loaded_modules.h"
#include "references/piece_pipeline.h"
#include "references/reference.h"
#include "references/storage_kind.h"
#include "references/text_tails.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

// Bytes that lie one after the other, with a word among them.
struct WordInMemory {
  Address at;    // of the word
  size_t index;  // of its first byte in `bytes`
  std::span<const std::byte> bytes;
  BlockNumber source = kNoBlock;  // the block that it lies in
  uint64_t offset_in_block = 0;   // if it lies in one

  // The word that lies `words` after it, or before it; false if it is none of the bytes.
  bool beside(int words, uint64_t& value) const {
    const size_t wanted = index + static_cast<size_t>(words) * sizeof value;
    if (wanted > bytes.size() || bytes.size() - wanted < sizeof value) return false;
    std::memcpy(&value, bytes.data() + wanted, sizeof value);
    return true;
  }
  // Whether the word at `address` is one of the bytes, and is not `value`.
  bool is_contradicted(uint64_t address, uint64_t value) const {
    const uint64_t wanted = address - (at.value() - index);
    uint64_t there = 0;
    if (wanted > bytes.size() || bytes.size() - wanted < sizeof there) return false;
    std::memcpy(&there, bytes.data() + wanted, sizeof there);
    return there != value;
  }
};

class ContainerStorage {
 public:
  // Both outlive this.
  ContainerStorage(Target& target, const BlockMap& map);

  // Whether a process with these modules may have such containers.
  static bool is_wanted(const LoadedModules& modules, const Process& process);

  // Whether the words that come now are of a stack. What a function has left there is still there
  // when the block that it led to is somebody else's: only what nodes confirm counts.
  void set_on_stack(bool is_on_stack) { is_on_stack_ = is_on_stack; }
  // Looks at a word that holds the address of the first byte of a block, and is not in free memory.
  void look_at(const WordInMemory& word, BlockNumber block) {
    const bool is_cut = word.index < kWordsBefore * kWordBytes ||
                        word.bytes.size() - word.index < kWordsFrom * kWordBytes;
    if (!is_cut || !keep_cut_word(word, block)) look_among(word, block);
  }
  // After the last one. `edges` is sealed: the references of all blocks that the words were of.
  // `start`: for nodes, beside this thread; empty for none.
  void follow(const BlockEdges& edges, const StartThread& start = {});

  // After follow(): false where there was too much to look at.
  bool are_nodes_known() const { return !limit_.is_reached(); }

  StorageKind kind(BlockNumber block) const { return static_cast<StorageKind>(kinds_[block]); }
  // After follow(): of the blocks of vectors and deques that have addresses of blocks where these
  // keep no elements, ascending.
  std::vector<SlackWords> take_slack_words() { return std::move(slack_words_); }
  // After follow(): of the strings in blocks, in which addresses of blocks are, ascending.
  std::vector<UnusedWord> take_unused_words() { return std::move(unused_words_); }
  // After follow(): of all lists, trees and hash tables whose nodes are known, ascending.
  std::vector<ContainerWords> take_containers() { return std::move(known_containers_); }
  // The kinds of all blocks, StorageKind each; the last thing to ask for.
  LargeArray<uint8_t> take_kinds() { return std::move(kinds_); }

 private:
  static constexpr uint64_t kWordBytes = 8;
  static constexpr uint64_t kMostBytes = uint64_t{1} << 40;
  // Shorter ones lie in the std::string: of 16 bytes.
  static constexpr uint64_t kShortestText = 4;
  static constexpr size_t kMostContainers = 1 << 20;
  // Its buffers are `buffer_bytes` each; words of the map from `first` on, `count` of them, hold
  // them.
  struct Deque {
    BlockNumber map = kNoBlock;
    uint64_t first = 0;
    uint64_t count = 0;
    uint64_t first_buffer = 0;
    uint64_t last_buffer = 0;
    uint64_t buffer_bytes = 0;
    // Words in use: of the map from `used_of_map` on, of the first buffer from `used_from` on, of
    // the last one before `used_to`.
    uint32_t used_of_map = 0;
    uint32_t used_from = 0;
    uint32_t used_to = 0;
    BlockNumber first_block = kNoBlock;  // the first buffer; once it was followed
    BlockNumber last_block = kNoBlock;   // the same
    bool operator==(const Deque&) const = default;
    // Elements may have been added to the last buffer, or removed, since the other one was copied.
    bool agrees_with(Deque other) const {
      other.used_to = used_to;
      return *this == other;
    }
  };
  // Of a vector, in words; of several that may be the block's, the largest.
  struct Capacity {
    uint32_t all = 0;       // 0: not known
    uint32_t elements = 0;  // up to the end of the last one
  };
  // A text that is not yet known to end where it should.
  struct Text {
    uint32_t size : 29;   // and one, in characters
    uint32_t widths : 3;  // a bit each: characters of 1, 2, 4 bytes would fill the block
  };

  // A vector without elements, or an iterator of a deque at the beginning of a buffer.
  struct EmptyArray {
    BlockNumber block = kNoBlock;
    uint64_t begin = 0;
    uint64_t bytes = 0;  // its capacity
    Address header;      // its three words
  };

  // What is looked at before a word, but for streams, and from it on.
  static constexpr size_t kWordsBefore = 1;
  static constexpr size_t kWordsFrom = 10;
  // A word of a block that came with fewer.
  struct CutWord {
    Address at;
    BlockNumber block = kNoBlock;  // that it leads to
    BlockNumber source = kNoBlock;
    uint64_t offset_in_block = 0;
  };

  void look_among(const WordInMemory& word, BlockNumber block) {
    std::array<uint64_t, 3> words{};
    if (word.bytes.size() - word.index < sizeof words) return;
    std::memcpy(words.data(), word.bytes.data() + word.index, sizeof words);
    const auto [address, second, third] = words;
    if (second >= address) {
      if (third >= second && third - address < kMostBytes) {
        look_at_array(word, block, second, third);
      }
    } else if (second <= third && third >= kShortestText && third < kMostBytes) {
      look_at_text(word, block, second, third);
    }
    if (word.source != kNoBlock && word.offset_in_block == kParentAt) {
      look_at_node(word, second, third);
    }
    if (map_.may_hold(second) && (may_count_blocks(third) || map_.may_hold(third))) {
      look_at_lists(word, third);
    }
    if (second != 0 && second < kMostBytes) {
      look_at_buckets(word, block, second, third);
      look_at_stream(word, block, second);
      if (map_.may_hold(third)) look_at_deque(word, block, second);
    }
  }
  // To look at it in follow(), when other memory may be read; false if it is not kept.
  bool keep_cut_word(const WordInMemory& word, BlockNumber block);
  void look_at_cut_words();
  AddressRange present_around(const CutWord& cut);
  bool may_count_blocks(uint64_t word) const { return word != 0 && word <= map_.blocks(); }
  void add_container(const WordInMemory& word, const NodeContainer& container);
  void look_at_array(const WordInMemory& word, BlockNumber block, uint64_t end,
                     uint64_t end_of_capacity);
  void look_at_text(const WordInMemory& word, BlockNumber block, uint64_t size, uint64_t capacity);
  void look_at_lists(const WordInMemory& word, uint64_t third);
  void look_at_buckets(const WordInMemory& word, BlockNumber block, uint64_t buckets,
                       uint64_t first);
  void look_at_deque(const WordInMemory& word, BlockNumber block, uint64_t map_size);
  void look_at_stream(const WordInMemory& word, BlockNumber block, uint64_t size);
  // What lies behind what may be a std::string in a block of so many words.
  void keep_tail(const WordInMemory& word, BlockNumber text, uint64_t words);
  std::vector<TextTail> take_tails();
  bool is_filled(uint64_t address, uint64_t bytes);
  // Of several kinds of a block the one with the lowest number counts, in whatever order they come.
  static void mark_in(LargeArray<uint8_t>& kinds, BlockNumber block, StorageKind kind) {
    uint8_t& known = kinds[block];
    const auto number = static_cast<uint8_t>(kind);
    if (known == 0 || number < known) known = number;
  }
  void mark(BlockNumber block, StorageKind kind) { mark_in(kinds_, block, kind); }
  // The same of all blocks; 0 is no kind.
  void mark_all_of(std::span<const uint8_t> kinds);
  // The container has asked for so many bytes of a block.
  void mark_capacity(BlockNumber block, uint64_t bytes);
  void find_empty_arrays();
  bool may_be_iterator(const EmptyArray& array);
  void find_used_words(std::vector<Deque>& known);
  void find_slack_words(const BlockEdges& edges);

  void look_at_node(const WordInMemory& word, uint64_t left, uint64_t right);

  void check_texts();
  // Bytes in words, rounded up.
  static uint32_t words_for(uint64_t bytes) {
    return static_cast<uint32_t>(
        std::min<uint64_t>(bytes / kWordBytes + (bytes % kWordBytes != 0), UINT32_MAX));
  }
  // Whether a word of it leads to a block.
  bool has_addresses(const AddressRange& range);
  bool is_text(Address begin, uint64_t size, uint64_t usable, uint32_t width);
  // Reading what is in swap would bring it back.
  bool may_read_again() const { return target_.process().swap == 0; }
  void forget_nodes();
  bool follow_deque(const Deque& deque);
  bool leads_back(const NodeContainer& container);
  bool leads_back_from_root(const NodeContainer& tree);
  bool begins_like_node(const NodeContainer& list);
  void follow_nodes(const BlockEdges& edges, const StartThread& start, TextTails& tails);
  void add_known(const NodeContainer& container);
  void follow_deques();

  Target& target_;
  const BlockMap& map_;
  PageCache cache_;
  uint64_t most_pages_ = 0;  // to read again
  // A block is a node of one container; some are followed that are none.
  LookLimit limit_;
  size_t most_containers_;
  bool is_on_stack_ = false;
  std::vector<CutWord> cut_words_;
  std::vector<EmptyArray> empty_arrays_;
  BlockMap::Hint hint_;
  LargeArray<uint8_t> kinds_;                     // of each block
  LargeArray<uint8_t> tree_nodes_;                // of each block: TreeMark bits
  LargeArray<Text, Pages::kSmall> texts_;         // of each block; of size 0: none
  LargeArray<Capacity, Pages::kSmall> capacity_;  // of each block
  std::vector<BlockNumber> with_capacity_;        // those of which it is known
  std::vector<SlackWords> slack_words_;
  std::vector<SlackWords> of_deques_;  // whether or not anything is in them
  bool has_texts_ = false;
  std::vector<TextTail> tails_;
  std::vector<UnusedWord> unused_words_;
  std::vector<NodeContainer> containers_;  // that may be some
  std::vector<ContainerWords> known_containers_;
  std::vector<Deque> deques_;
  std::vector<BlockNumber> buffers_;  // of the deque that is followed
};

}  // namespace heapsnap
