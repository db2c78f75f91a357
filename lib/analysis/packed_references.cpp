#include "analysis/packed_references.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "base/count_bits.h"
#include "base/error.h"

namespace heapsnap {

namespace {

[[noreturn]] void refuse_packing(const std::string& why) {
  throw Error(ErrorKind::kBadInput, "the references between blocks", why);
}

// Where the `count`th 0 of a word is, from its lowest bit on; it has as many.
unsigned place_of_zero(uint64_t word, unsigned count) {
  uint64_t zeros = ~word;
  for (; count > 1; --count) zeros &= zeros - 1;
  return static_cast<unsigned>(std::countr_zero(zeros));
}

// Blocks that were reached and are still to be followed: the last ones in a list, the others known
// by their bits alone, so that they take no memory however many they are.
class WaitingBlocks {
 public:
  explicit WaitingBlocks(BlockNumber blocks) : followed_(blocks) {}

  void add(BlockNumber block) {
    if (list_.size() < kMostListed) {
      list_.push_back(block);
    } else {
      has_others_ = true;
    }
  }
  // The next one, or kNoBlock where none is listed.
  BlockNumber take() {
    if (list_.empty()) return kNoBlock;
    const BlockNumber block = list_.back();
    list_.pop_back();
    followed_.insert(block);
    return block;
  }
  // Lists what was not, as far as there is room. False: there is nothing more.
  bool list_others(const BlockSet& reached) {
    if (!std::exchange(has_others_, false)) return false;
    const std::span<const uint64_t> words = reached.words();
    for (size_t word = 0; word < words.size(); ++word) {
      for (uint64_t left = words[word] & ~followed_.words()[word]; left != 0; left &= left - 1) {
        add(static_cast<BlockNumber>(word * 64 + static_cast<unsigned>(std::countr_zero(left))));
      }
    }
    return true;
  }

 private:
  static constexpr size_t kMostListed = size_t{1} << 20;

  BlockSet followed_;
  LargeArray<BlockNumber> list_;
  bool has_others_ = false;
};

}  // namespace

PackedReferences::PackedReferences(BlockNumber blocks)
    : blocks_(blocks),
      width_(std::max<unsigned>(1, static_cast<unsigned>(std::bit_width(blocks)))),
      mask_((uint64_t{1} << width_) - 1) {}

void PackedReferences::add_block(bool goes_on) {
  if (goes_on) return;
  if (next_ == blocks_) refuse_packing("there are more blocks of them than blocks");
  if (next_ % kGroup == 0) first_.push_back(references_);
  ++next_;
}

void PackedReferences::add_target(BlockNumber target) {
  if (target >= blocks_) {
    refuse_packing("one leads to block " + std::to_string(target) + " of " +
                   std::to_string(blocks_));
  }
  const uint64_t bit = references_ * width_;
  const unsigned shift = bit % kWord;
  // One word more than is used, so that target() may look at the next one.
  while (targets_.size() < (bit + width_) / kWord + 2) targets_.push_back(0);
  targets_[bit / kWord] |= uint64_t{target} << shift;
  if (shift + width_ > kWord) {
    targets_[bit / kWord + 1] |= uint64_t{target} >> (kWord - shift);
  }
  ++references_;
}

void PackedReferences::on_references(const ReferenceBatch& batch) {
  // A block with very many may go on in the next batch: then its 0 is taken back.
  const bool goes_on = next_ != 0 && batch.first + uint64_t{1} == next_;
  if (batch.first != next_ && !goes_on) refuse_packing("some are missing");
  size_t begin = 0;
  for (size_t i = 0; i < batch.counts.size(); ++i) {
    const uint32_t count = batch.counts[i];
    if (count > batch.targets.size() - begin) refuse_packing("a batch is cut off");
    add_block(goes_on && i == 0);
    for (const BlockNumber target : batch.targets.subspan(begin, count)) add_target(target);
    begin += count;
    // The ones of the block lie before bit references_ + block; behind them is its 0.
    const uint64_t end = references_ + next_ - 1;
    while (counts_.size() < end / kWord + 2) counts_.push_back(0);
    for (uint64_t bit = end - count; bit < end; ++bit) {
      counts_[bit / kWord] |= uint64_t{1} << (bit % kWord);
    }
  }
}

void PackedReferences::finish() {
  if (next_ != blocks_) refuse_packing("those of some blocks are missing");
}

uint64_t PackedReferences::begin_of_counts(BlockNumber block) const {
  const uint64_t group = block / kGroup;
  uint64_t bit = first_[group] + group * kGroup;
  // Behind as many zeros as there are blocks before it in its group.
  for (unsigned left = block % kGroup; left != 0;) {
    const unsigned used = bit % kWord;
    const uint64_t word = counts_[bit / kWord] | ((uint64_t{1} << used) - 1);
    const unsigned zeros = count_bits(~word);
    if (zeros >= left) return bit - used + place_of_zero(word, left) + 1;
    left -= zeros;
    bit += kWord - used;
  }
  return bit;
}

BlockSet reachable_in_few_bytes(const ReferenceStreams& references, BlockNumber blocks,
                                std::span<const BlockNumber> starts) {
  PackedReferences packed(blocks);
  references.read_references(packed);
  packed.finish();
  BlockSet reached(blocks);
  WaitingBlocks waiting(blocks);
  for (const BlockNumber start : starts) {
    if (start >= blocks) {
      throw Error(ErrorKind::kBadInput, "the roots", "one leads to a block that is not there");
    }
    if (reached.insert(start)) waiting.add(start);
  }
  do {
    for (BlockNumber block = 0; (block = waiting.take()) != kNoBlock;) {
      packed.each_target(block, [&](BlockNumber target) {
        if (!reached.insert(target)) return;
        packed.prefetch(target);
        waiting.add(target);
      });
    }
  } while (waiting.list_others(reached));
  return reached;
}

}  // namespace heapsnap
