#include "snapshot/chunk_block.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "snapshot/byte_writer.h"

namespace heapsnap {
namespace {

enum ColumnIndex : size_t { kRuns, kSizeCodes, kLargeSizes, kStateBits, kOtherStates, kColumns };

// Below 2^40 no block of sizes can overflow a sum.
constexpr uint64_t kSurelySmall = uint64_t{1} << 40;

bool needs_large_size(uint64_t size, unsigned shift) {
  const uint64_t granules = size >> shift;
  return granules >= format::kLargeSizeCode || granules << shift != size;
}

uint64_t checked_sum(std::span<const uint64_t> sizes) {
  uint64_t sum = 0;
  for (const uint64_t size : sizes) {
    if (__builtin_add_overflow(sum, size, &sum)) {
      throw Error(ErrorKind::kInternal, "cannot write a chunk", "it ends beyond the address space");
    }
  }
  return sum;
}

}  // namespace

ChunkBlockBuilder::ChunkBlockBuilder(SectionSink& sink)
    : sink_(sink), codes_(kChunksInBlock), states_(kChunksInBlock) {
  section_.kind = format::SectionKind::kChunks;
  section_.columns.resize(kColumns);
  for (size_t i = 0; i < kColumns; ++i) {
    section_.columns[i].id = static_cast<uint16_t>(format::kChunkRuns + i);
  }
}

void ChunkBlockBuilder::add(const ChunkBatch& batch) {
  choose_granule(batch.sizes);
  Address begin = batch.begin;
  for (size_t done = 0; done < batch.sizes.size();) {
    const bool fits = count_ < kChunksInBlock && batch.arena == arena_ &&
                      batch.segment == segment_ && end_ <= begin;
    if (!fits) flush();
    if (count_ == 0) {
      arena_ = batch.arena;
      segment_ = batch.segment;
      section_.begin = begin;
      end_ = Address();
    }
    open_run(begin);
    const size_t take = std::min<size_t>(batch.sizes.size() - done, kChunksInBlock - count_);
    const uint64_t length = append_sizes(batch.sizes.subspan(done, take));
    std::copy_n(batch.states.begin() + static_cast<ptrdiff_t>(done), take,
                states_.begin() + static_cast<ptrdiff_t>(count_));
    if (length > ~begin.value()) {
      throw Error(ErrorKind::kInternal, "cannot write a chunk", "it ends beyond the address space");
    }
    append_stacks(batch, done, take);
    runs_.back().count += take;
    count_ += static_cast<uint32_t>(take);
    done += take;
    begin += length;
    end_ = begin;
  }
}

// i386 before glibc 2.26 aligns chunks to 8 bytes. Odd sizes are damage and change nothing.
void ChunkBlockBuilder::choose_granule(std::span<const uint64_t> sizes) {
  const uint64_t bits = union_of(sizes);
  if (granule_shift_ == 4 && (bits & 15) == 8) {
    flush();
    granule_shift_ = 3;
  }
}

void ChunkBlockBuilder::open_run(Address begin) {
  if (count_ == 0 || begin != end_) runs_.push_back({begin - end_, 0});
}

uint64_t ChunkBlockBuilder::append_sizes(std::span<const uint64_t> sizes) {
  Bytes& large = section_.columns[kLargeSizes].bytes;
  uint8_t* const codes = codes_.data() + count_;
  const unsigned shift = granule_shift_;
  const auto encode = [&](size_t from, size_t to) {
    bool any = false;
    for (size_t i = from; i < to; ++i) {
      const bool is_large = needs_large_size(sizes[i], shift);
      codes[i] = is_large ? format::kLargeSizeCode : static_cast<uint8_t>(sizes[i] >> shift);
      any |= is_large;
    }
    if (!any) return;
    for (size_t i = from; i < to; ++i) {
      if (codes[i] == format::kLargeSizeCode) append_varint(large, sizes[i]);
    }
  };
  constexpr size_t kGroup = 16;
  size_t i = 0;
  for (; i + kGroup <= sizes.size(); i += kGroup) encode(i, i + kGroup);
  encode(i, sizes.size());
  if (union_of(sizes) >= kSurelySmall) return checked_sum(sizes);
  uint64_t sum = 0;
  for (const uint64_t size : sizes) sum += size;
  return sum;
}

void ChunkBlockBuilder::pack_states() {
  Bytes& bits = section_.columns[kStateBits].bytes;
  Bytes& others = section_.columns[kOtherStates].bytes;
  bits.resize((count_ + 7) / 8);
  others.assign((size_t{count_} + 1) / 2, std::byte{});  // as if no chunk were in use
  std::fill(states_.begin() + count_, states_.begin() + std::min(kChunksInBlock, count_ + 7),
            ChunkState::kUsed);
  const auto* states = reinterpret_cast<const uint8_t*>(states_.data());
  auto* out = reinterpret_cast<uint8_t*>(others.data());
  size_t other = 0;
  for (size_t i = 0; i < bits.size(); ++i) {
    uint64_t eight = 0;
    std::memcpy(&eight, states + i * 8, sizeof eight);
    // States are below 16, so bit 7 of each sum says "not 0"; the product gathers the eight.
    const uint64_t flags = ((eight + 0x7f7f7f7f7f7f7f7f) >> 7) & 0x0101010101010101;
    const uint64_t byte = (flags * 0x0102040810204080) >> 56;
    for (uint64_t rest = byte; rest != 0; rest &= rest - 1) {
      const uint64_t state = (eight >> (8 * std::countr_zero(rest))) & 0xff;
      out[other / 2] |= static_cast<uint8_t>(state << (other % 2 * 4));
      ++other;
    }
    bits[i] = static_cast<std::byte>(byte);
  }
  others.resize((other + 1) / 2);
}

void ChunkBlockBuilder::append_stacks(const ChunkBatch& batch, size_t from, size_t count) {
  if (batch.stacks.empty() && !has_stacks_) return;
  if (!has_stacks_) {
    has_stacks_ = true;
    stacks_.resize(kChunksInBlock);
    slacks_.resize(kChunksInBlock);
    std::fill_n(stacks_.begin(), count_, 0);
    std::fill_n(slacks_.begin(), count_, 0);
  }
  if (batch.stacks.empty()) {
    std::fill_n(stacks_.begin() + count_, count, 0);
  } else {
    std::copy_n(batch.stacks.begin() + static_cast<ptrdiff_t>(from), count,
                stacks_.begin() + count_);
  }
  // A file may have stacks without them.
  if (batch.slacks.empty()) {
    std::fill_n(slacks_.begin() + count_, count, 0);
  } else {
    std::copy_n(batch.slacks.begin() + static_cast<ptrdiff_t>(from), count,
                slacks_.begin() + count_);
  }
}

void ChunkBlockBuilder::pack_stacks() {
  section_.columns.resize(has_stacks_ ? kColumns + 2 : size_t{kColumns});
  if (!has_stacks_) return;
  section_.columns[kColumns].id = format::kChunkStackIds;
  write_planes(section_.columns[kColumns].bytes, std::span(stacks_).first(count_));
  section_.columns[kColumns + 1].id = format::kChunkSlacks;
  const auto slacks = std::as_bytes(std::span(slacks_).first(count_));
  section_.columns[kColumns + 1].bytes.assign(slacks.begin(), slacks.end());
  has_stacks_ = false;
}

void ChunkBlockBuilder::flush() {
  if (count_ == 0) return;
  Bytes& runs = section_.columns[kRuns].bytes;
  runs.clear();
  append_varint(runs, zigzag(arena_));
  append_varint(runs, segment_);
  append_varint(runs, granule_shift_);
  for (const Run& run : runs_) {
    append_varint(runs, run.gap);
    append_varint(runs, run.count);
  }
  const auto codes = std::as_bytes(std::span(codes_).first(count_));
  section_.columns[kSizeCodes].bytes.assign(codes.begin(), codes.end());
  pack_states();
  pack_stacks();
  section_.items = count_;
  sink_.add(section_);
  section_.columns[kLargeSizes].bytes.clear();
  runs_.clear();
  count_ = 0;
}

}  // namespace heapsnap
