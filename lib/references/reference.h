// References: the words in blocks of memory that hold addresses in blocks. With the roots (root.h)
// they say what keeps a block alive.
//
// Blocks are the live chunks of a walk (is_live()), and are numbered in the order in which a
// snapshot gives them: those of heap segments in ascending order of address, then the mmapped ones
// as the walk found them.
//
//     segment:   | used | free | used | used | ...     mmapped:  | chunk | chunk |
//     number:       0             1      2                           n      n+1
//
// A word counts when it is aligned and lies in what malloc_usable_size(3) grants its block.
#pragma once

#include <compare>
#include <cstdint>
#include <span>

#include "base/address.h"

namespace heapsnap {

using BlockNumber = uint32_t;
inline constexpr BlockNumber kNoBlock = UINT32_MAX;

// How far past a block's first byte, or past where the object in a slot begins, a reference points:
// in words of eight bytes, if it is a few of them. The lowest bit may be a mark of a language
// runtime's.
inline constexpr uint8_t kFarInside = UINT8_MAX;
constexpr uint8_t how_far_inside(uint64_t bytes) {
  constexpr uint64_t kWord = 8;
  constexpr uint64_t kMark = 1;
  const bool is_near =
      bytes % kWord <= kMark && bytes / kWord < kFarInside && (bytes == 0 || bytes >= kWord);
  return is_near ? static_cast<uint8_t>(bytes / kWord) : kFarInside;
}

// The words of a block that a container of the C++ library does not use. What is there is left over
// from before, unless the block is not such a container's, but has three pointers into it as a
// vector's has.
//
//   | unused | elements | spare: room for more elements | unused: more than was asked for |
//            used_from                                  first
//
// Or all words of a block whose object is destroyed (destroyed_objects.h).
struct SlackWords {
  static SlackWords all_of(BlockNumber block) { return {block, UINT32_MAX, UINT32_MAX, 0}; }
  bool are_all() const { return used_from == UINT32_MAX; }

  BlockNumber block = kNoBlock;
  uint32_t first = 0;      // word of the block
  uint32_t used_from = 0;  // the same; of a deque
  uint32_t spare = 0;      // how many words before `first`
  bool is_unused(uint32_t word) const { return word >= first || word < used_from; }
  bool is_spare(uint32_t word) const { return word < first && first - word <= spare; }
  bool contains(uint32_t word) const { return is_unused(word) || is_spare(word); }
  bool operator==(const SlackWords&) const = default;
};

// A word of a block that lies in a std::string whose characters are elsewhere, in the half that it
// does not use then of its buffer of 16 bytes (text_tails.h). What is there is left over from
// before.
struct UnusedWord {
  BlockNumber block = kNoBlock;
  uint32_t word = 0;  // of the block
  auto operator<=>(const UnusedWord&) const = default;
};

// Where a container of libstdc++ keeps the addresses of its nodes, which nobody else owns: some
// words of a block, or outside of all blocks, one after the other.
struct ContainerWords {
  BlockNumber block = kNoBlock;  // kNoBlock: outside
  uint32_t word = 0;             // of the block, the first one; else 0
  Address at;                    // outside, of the first one; else null
  uint32_t count = 0;
  auto operator<=>(const ContainerWords&) const = default;
};

// The references of consecutive blocks: counts[i] of them belong to block first + i. A block with
// very many comes in parts: the next batch begins with the block that the one before ends with.
struct ReferenceBatch {
  BlockNumber first = 0;
  std::span<const uint32_t> counts;
  // Of each reference, those of a block in ascending order of `offsets`:
  std::span<const uint32_t> offsets;     // of the word in its block, in words of the target
  std::span<const BlockNumber> targets;  // the block that it points into
  std::span<const uint8_t> interior;     // 0: at the block's first byte; else further inside
  // The last block comes again, perhaps without references. Only a scan knows: batches of a reader
  // are told by their `first` alone.
  bool goes_on = false;
};

// Takes the references of all blocks, in ascending order of the blocks' numbers, none left out.
class ReferenceSink {
 public:
  virtual ~ReferenceSink() = default;
  // The spans live only during the call.
  virtual void on_references(const ReferenceBatch& batch) = 0;
};

}  // namespace heapsnap
