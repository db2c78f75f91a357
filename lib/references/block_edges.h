// References to the first bytes of blocks, kept in memory: which words of a block lead where.
//
// Of each block the length of what follows, in bytes, and for each of its references the words from
// the one before it and how far its block's number is from that of the one before (the first: from
// its own block's), both in as few bytes as they need:
//
//   groups   | 0 | 31 | ...            where each eighth block begins
//   bytes    | 4: 0 +1 1 -2 | 0 | 2: 5 +7 | ...
//
// A node of a list in memory order takes six bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/large_memory.h"
#include "references/block_map.h"
#include "references/reference.h"

namespace heapsnap {

// Hands the references on to another sink and keeps what it needs.
class BlockEdges final : public ReferenceSink {
 public:
  // `next` outlives this. With more than `most_bytes` there are none (is_cut_off()).
  BlockEdges(ReferenceSink& next, uint64_t most_bytes) : next_(next), most_bytes_(most_bytes) {}

  // Makes room for so many blocks of a few references each, instead of growing. What is not filled
  // takes no memory. Throws std::bad_alloc.
  void expect(BlockNumber blocks);
  void on_references(const ReferenceBatch& batch) override;
  // After the last one. `map` is the one whose blocks the references are of.
  void seal(const BlockMap& map);
  // After seal(): usable() may be asked for from then on. Two bytes a block of malloc.
  void keep_sizes(const BlockMap& map);

  bool is_cut_off() const { return is_cut_off_; }
  BlockNumber blocks() const { return blocks_; }
  // Usable bytes, or those of a slot; UINT32_MAX: that many or more.
  uint32_t usable(BlockNumber block) const;

  // Where a caller found the last block; each caller keeps its own.
  struct Hint {
    BlockNumber block = kNoBlock;
    uint64_t at = 0;
  };
  // Calls visit(offset, target) for each of a block's references, in ascending order of `offset`:
  // of the word in its block, in words of the target. It returns false to end.
  template <typename Visit>
  void each(BlockNumber block, Hint& hint, Visit visit) const {
    const uint8_t* in = find(block, hint);
    const uint64_t length = take_length(in);
    const uint8_t* const end = in + length;
    uint32_t offset = 0;
    BlockNumber target = block;
    while (in != end) {
      offset += take_number(in);
      target += unfold(take_number(in));
      if (!visit(offset, target)) return;
    }
  }

 private:
  static constexpr unsigned kGroupBits = 3;
  static constexpr uint8_t kLongCode = UINT8_MAX;  // eight bytes with the length follow
  static constexpr uint16_t kLargeCode = UINT16_MAX;

  static constexpr uint32_t fold(uint32_t difference) {
    return (difference << 1) ^ (0 - (difference >> 31));
  }
  static constexpr uint32_t unfold(uint32_t folded) { return (folded >> 1) ^ (0 - (folded & 1)); }
  static uint32_t take_number(const uint8_t*& in) {
    uint32_t value = *in++;
    if (value < 0x80) return value;
    value &= 0x7f;
    for (unsigned shift = 7;; shift += 7) {
      const uint32_t byte = *in++;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  static void put_number(uint8_t*& out, uint32_t value) {
    for (; value >= 0x80; value >>= 7) *out++ = static_cast<uint8_t>(value | 0x80);
    *out++ = static_cast<uint8_t>(value);
  }
  static uint64_t take_length(const uint8_t*& in) {
    const uint8_t length = *in++;
    return length == kLongCode ? take_long(in) : length;
  }
  static uint64_t take_long(const uint8_t*& in);

  const uint8_t* find(BlockNumber block, Hint& hint) const {
    const uint8_t* in = bytes_.data();
    BlockNumber at = block & ~((1U << kGroupBits) - 1);
    if (hint.block <= block && hint.block >= at) {
      at = hint.block;
      in += hint.at;
    } else {
      in += groups_[block >> kGroupBits];
    }
    for (; at < block; ++at) {
      const uint64_t length = take_length(in);
      in += length;
    }
    hint = {block, static_cast<uint64_t>(in - bytes_.data())};
    return in;
  }
  // A block's last reference so far, which the next one is told from.
  struct Last {
    uint32_t offset = 0;
    BlockNumber target = 0;
  };
  // Of a block whose references come in parts, where the eight bytes with its length are.
  struct OpenBlock {
    uint64_t length_at = 0;
    Last last;
  };
  // These write to `out`, and give where what they wrote ends.
  static uint8_t* put_references(uint8_t* out, const ReferenceBatch& batch, size_t first,
                                 size_t end, Last& last);
  static uint8_t* put_block(uint8_t* out, const ReferenceBatch& batch, size_t first, size_t end,
                            BlockNumber block);
  // `at`: where in all bytes.
  uint8_t* begin_open(uint8_t* out, uint64_t at);
  uint8_t* put_part(uint8_t* out, const ReferenceBatch& batch, size_t first, size_t end);
  void give_up();

  ReferenceSink& next_;
  uint64_t most_bytes_;
  bool is_cut_off_ = false;
  BlockNumber blocks_ = 0;
  std::optional<OpenBlock> open_;  // the last one
  LargeArray<uint64_t> groups_;
  LargeArray<uint8_t, Pages::kSmall> bytes_;
  LargeArray<uint16_t> sizes_;                                 // of malloc's, in target's words
  std::vector<std::pair<BlockNumber, uint32_t>> large_sizes_;  // ascending, in bytes
  std::vector<std::pair<BlockNumber, uint32_t>> slot_sizes_;   // of a page: its first, each
  uint32_t word_ = 8;
};

}  // namespace heapsnap
