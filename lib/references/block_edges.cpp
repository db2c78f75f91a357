#include "references/block_edges.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/count_bits.h"

namespace heapsnap {

void BlockEdges::give_up() {
  is_cut_off_ = true;
  blocks_ = 0;
  groups_.release();
  bytes_.release();
  sizes_.release();
  large_sizes_ = {};
  slot_sizes_ = {};
}

uint64_t BlockEdges::take_long(const uint8_t*& in) {
  uint64_t length = 0;
  std::memcpy(&length, in, sizeof length);
  in += sizeof length;
  return length;
}

inline uint8_t* BlockEdges::put_references(uint8_t* out, const ReferenceBatch& batch, size_t first,
                                           size_t end, Last& last) {
  // Bytes may be anything, also members: what is used in the loop is not read from there.
  const uint32_t* const offsets = batch.offsets.data();
  const BlockNumber* const targets = batch.targets.data();
  const uint8_t* const interior = batch.interior.data();
  auto [last_offset, last_target] = last;
  for (size_t i = first; i < end; ++i) {
    if (interior[i] != 0) continue;
    const uint32_t offset = offsets[i];
    const BlockNumber target = targets[i];
    put_number(out, offset - last_offset);
    put_number(out, fold(target - last_target));
    last_offset = offset;
    last_target = target;
  }
  last = {last_offset, last_target};
  return out;
}

uint8_t* BlockEdges::put_block(uint8_t* begin, const ReferenceBatch& batch, size_t first,
                               size_t end, BlockNumber block) {
  Last last{0, block};
  uint8_t* const out = put_references(begin + 1, batch, first, end, last);
  const auto length = static_cast<uint64_t>(out - begin - 1);
  if (length < kLongCode) {
    *begin = static_cast<uint8_t>(length);
    return out;
  }
  std::memmove(begin + 1 + sizeof length, begin + 1, length);
  *begin = kLongCode;
  std::memcpy(begin + 1, &length, sizeof length);
  return out + sizeof length;
}

uint8_t* BlockEdges::begin_open(uint8_t* out, uint64_t at) {
  constexpr uint64_t kNoBytes = 0;
  *out = kLongCode;
  std::memcpy(out + 1, &kNoBytes, sizeof kNoBytes);
  open_ = {at + 1, {0, blocks_}};
  return out + 1 + sizeof kNoBytes;
}

uint8_t* BlockEdges::put_part(uint8_t* begin, const ReferenceBatch& batch, size_t first,
                              size_t end) {
  uint8_t* const out = put_references(begin, batch, first, end, open_->last);
  uint64_t length = 0;
  std::memcpy(&length, bytes_.data() + open_->length_at, sizeof length);
  length += static_cast<uint64_t>(out - begin);
  std::memcpy(bytes_.data() + open_->length_at, &length, sizeof length);
  return out;
}

void BlockEdges::expect(BlockNumber blocks) {
  constexpr uint64_t kBytesOfBlock = 8;  // more grow it
  const uint64_t groups = (uint64_t{blocks} >> kGroupBits) + 1;
  groups_.reserve(std::min(groups, most_bytes_ / sizeof(uint64_t)));
  bytes_.reserve(std::min(kBytesOfBlock * blocks, most_bytes_));
}

void BlockEdges::on_references(const ReferenceBatch& batch) {
  constexpr size_t kMostOfNumber = 5;
  constexpr size_t kMostOfLength = 1 + sizeof(uint64_t);
  next_.on_references(batch);
  if (is_cut_off_) return;
  const uint64_t before = bytes_.size();
  uint8_t* const begin =
      bytes_.room(batch.targets.size() * 2 * kMostOfNumber + batch.counts.size() * kMostOfLength);
  uint8_t* out = begin;
  size_t at = 0;
  size_t i = 0;
  const size_t blocks = batch.counts.size();
  const auto block_at = [&] { return before + static_cast<uint64_t>(out - begin); };
  if (open_ && blocks != 0) {
    out = put_part(out, batch, at, batch.counts[0]);
    at = batch.counts[i++];
    if (blocks != 1 || !batch.goes_on) open_.reset();
  }
  for (const size_t whole = batch.goes_on ? blocks - 1 : blocks; i < whole; ++i) {
    if (blocks_ % (1U << kGroupBits) == 0) groups_.push_back(block_at());
    const size_t end = at + batch.counts[i];
    out = put_block(out, batch, at, end, blocks_);
    at = end;
    ++blocks_;
  }
  if (i < blocks) {
    if (blocks_ % (1U << kGroupBits) == 0) groups_.push_back(block_at());
    out = begin_open(out, block_at());
    ++blocks_;
    out = put_part(out, batch, at, at + batch.counts[i]);
  }
  bytes_.add_filled(static_cast<size_t>(out - begin));
  if (bytes_.size() + groups_.size() * sizeof(uint64_t) > most_bytes_) give_up();
}

void BlockEdges::seal(const BlockMap& map) {
  if (!is_cut_off_ && blocks_ != map.blocks()) give_up();
}

void BlockEdges::keep_sizes(const BlockMap& map) {
  if (is_cut_off_) return;
  word_ = map.word();
  sizes_ = LargeArray<uint16_t>(map.first_slot());
  const auto shift = static_cast<unsigned>(std::countr_zero(word_));
  for (const AddressRange& memory : map.memory()) {
    map.each_part(memory, [&](const BlockMap::Part& whole) {
      const uint64_t bytes = whole.bytes.size();
      const uint64_t words = bytes >> shift;
      const bool is_large = words >= kLargeCode || words << shift != bytes;
      sizes_[whole.block] = is_large ? kLargeCode : static_cast<uint16_t>(words);
      if (!is_large) return;
      large_sizes_.emplace_back(whole.block,
                                static_cast<uint32_t>(std::min<uint64_t>(bytes, UINT32_MAX)));
    });
  }
  std::sort(large_sizes_.begin(), large_sizes_.end());
  BlockNumber next = map.first_slot();
  map.slots().each_page([&](const SlotPage& page) {
    const BlockNumber first = next;
    for (const uint64_t used : page.used) next += count_bits(used);
    if (next != first) slot_sizes_.emplace_back(first, page.slot_bytes);
  });
}

uint32_t BlockEdges::usable(BlockNumber block) const {
  if (block >= sizes_.size()) {
    const auto behind =
        std::upper_bound(slot_sizes_.begin(), slot_sizes_.end(), std::pair(block, UINT32_MAX));
    return std::prev(behind)->second;
  }
  if (sizes_[block] != kLargeCode) return sizes_[block] * word_;
  return std::lower_bound(large_sizes_.begin(), large_sizes_.end(), std::pair(block, 0U))->second;
}

}  // namespace heapsnap
