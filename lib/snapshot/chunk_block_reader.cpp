#include <algorithm>
#include <bit>
#include <cstring>

#include "base/byte_reader.h"
#include "base/error.h"
#include "base/most_mapped_bytes.h"
#include "snapshot/chunk_block.h"

namespace heapsnap {
namespace {

[[noreturn]] void fail(const std::string& source, const char* why) {
  throw Error(ErrorKind::kBadInput, source + " is damaged", why);
}

// Eight size codes at a time; whether any of them is 255.
bool has_large_size(const uint8_t* codes) {
  uint64_t word = 0;
  std::memcpy(&word, codes, sizeof word);
  constexpr uint64_t kLow = 0x0101010101010101;
  const uint64_t inverted = ~word;
  return ((inverted - kLow) & word & (kLow << 7)) != 0;
}

// Turns size codes into sizes, eight at a time, and gives their sum.
class SizeDecoder {
 public:
  SizeDecoder(unsigned shift, std::span<const std::byte> large, const std::string& source)
      : shift_(shift), large_(large), source_(source) {}

  uint64_t decode(std::span<const uint8_t> codes, uint64_t* sizes) {
    uint64_t sum = 0;
    size_t i = 0;
    for (; i + 8 <= codes.size(); i += 8) {
      if (has_large_size(codes.data() + i)) {
        decode_slowly(codes.subspan(i, 8), sizes + i, sum);
      } else {
        uint64_t granules = 0;
        for (size_t k = 0; k < 8; ++k) {
          granules += codes[i + k];
          sizes[i + k] = uint64_t{codes[i + k]} << shift_;
        }
        add(sum, granules << shift_);
      }
    }
    decode_slowly(codes.subspan(i), sizes + i, sum);
    return sum;
  }
  bool is_complete() const { return large_.empty(); }

 private:
  void decode_slowly(std::span<const uint8_t> codes, uint64_t* sizes, uint64_t& sum) {
    for (size_t i = 0; i < codes.size(); ++i) {
      sizes[i] = codes[i] == format::kLargeSizeCode ? take_large() : uint64_t{codes[i]} << shift_;
      add(sum, sizes[i]);
    }
  }
  // Nearly all are below 2 MiB: three bytes at most. The rest takes the road with all checks.
  uint64_t take_large() {
    uint64_t value = 0;
    for (size_t i = 0; i < 3 && i < large_.size(); ++i) {
      const auto byte = static_cast<uint64_t>(large_[i]);
      value |= (byte & 0x7f) << (7 * i);
      if (byte < 0x80) {
        large_ = large_.subspan(i + 1);
        return value;
      }
    }
    ByteReader reader(large_, source_);
    value = reader.read_varint();
    large_ = large_.subspan(reader.offset());
    return value;
  }
  void add(uint64_t& sum, uint64_t more) const {
    if (__builtin_add_overflow(sum, more, &sum)) fail(source_, "sizes of chunks overflow");
  }

  unsigned shift_;
  std::span<const std::byte> large_;
  const std::string& source_;
};

}  // namespace

void ChunkBlockReader::unpack_states(const Columns& columns, uint32_t count,
                                     const std::string& source) {
  const size_t bytes = (size_t{count} + 7) / 8;
  if (columns.state_bits.size() != bytes)
    fail(source, "the state bits do not match the number of chunks");
  states_.assign(bytes * 8, ChunkState::kUsed);
  size_t other = 0;
  const size_t others = columns.other_states.size() * 2;
  for (size_t i = 0; i < bytes; ++i) {
    auto bits = static_cast<unsigned>(columns.state_bits[i]);
    for (; bits != 0; bits &= bits - 1) {
      if (other == others) fail(source, "there are fewer other states than state bits");
      const auto pair = static_cast<unsigned>(columns.other_states[other / 2]);
      const unsigned state = other % 2 == 0 ? pair & 15U : pair >> 4;
      states_[i * 8 + static_cast<size_t>(std::countr_zero(bits))] =
          state < kChunkStateCount ? static_cast<ChunkState>(state) : ChunkState::kUnknown;
      ++other;
    }
  }
  if ((other + 1) / 2 != columns.other_states.size()) {
    fail(source, "there are more other states than state bits");
  }
}

void ChunkBlockReader::unpack_stacks(const Columns& columns, uint32_t count,
                                     const std::string& source) {
  stacks_.clear();
  const size_t slacks = columns.slacks.size();
  if (slacks != 0 && slacks != count)
    fail(source, "the slacks of a block do not match its number of chunks");
  if (columns.stack_ids.empty()) return;
  if (columns.stack_ids.size() != size_t{count} * sizeof(uint32_t)) {
    fail(source, "the stack ids of a block do not match its number of chunks");
  }
  stacks_.assign(count, 0);
  const std::byte* in = columns.stack_ids.data();
  for (unsigned plane = 0; plane < 32; plane += 8) {
    for (uint32_t& stack : stacks_) stack |= static_cast<uint32_t>(*in++) << plane;
  }
}

void ChunkBlockReader::read(const Columns& columns, uint32_t count, Address begin,
                            const Limits& limits, const std::string& source, ChunkSink& sink) {
  if (count == 0 || count > format::kMaxChunksInBlock || columns.size_codes.size() != count) {
    fail(source, "the size codes of a block do not match its number of chunks");
  }
  unpack_states(columns, count, source);
  unpack_stacks(columns, count, source);
  ByteReader runs(columns.runs, source);
  const int64_t arena = runs.read_signed_varint();
  const uint64_t segment = runs.read_varint();
  const uint64_t shift = runs.read_varint();
  if (arena < 0 || static_cast<uint64_t>(arena) >= limits.arenas || segment >= limits.segments) {
    fail(source, "chunks of an arena or segment that does not exist");
  }
  if (shift > 16) fail(source, "the granule shift is invalid");

  const auto* codes = reinterpret_cast<const uint8_t*>(columns.size_codes.data());
  SizeDecoder decoder(static_cast<unsigned>(shift), columns.large_sizes, source);
  sizes_.resize(kBatchSize);
  Address at;
  size_t done = 0;
  while (!runs.at_end()) {
    const uint64_t gap = runs.read_varint();
    uint64_t left = runs.read_varint();
    if (left == 0 || left > count - done)
      fail(source, "runs do not match the number of chunks of a block");
    if (gap > ~at.value()) fail(source, "a run begins beyond the address space");
    at += gap;
    if (done == 0 && at != begin) fail(source, "a block does not begin where the index says");
    while (left > 0) {
      const auto take = static_cast<size_t>(std::min<uint64_t>(left, kBatchSize));
      const uint64_t length = decoder.decode({codes + done, take}, sizes_.data());
      if (length > ~at.value()) fail(source, "a chunk ends beyond the address space");
      if (__builtin_add_overflow(total_, length, &total_) || total_ > kMostMappedBytes) {
        fail(source, "the chunks together are larger than the address space");
      }
      ChunkBatch batch{static_cast<int32_t>(arena), static_cast<uint32_t>(segment), at,
                       std::span(sizes_).first(take), std::span(states_).subspan(done, take)};
      if (!stacks_.empty()) batch.stacks = std::span(stacks_).subspan(done, take);
      if (!columns.slacks.empty()) {
        batch.slacks = {reinterpret_cast<const uint8_t*>(columns.slacks.data()) + done, take};
      }
      sink.on_batch(batch);
      at += length;
      done += take;
      left -= take;
    }
  }
  if (done != count || !decoder.is_complete()) {
    fail(source, "runs or large sizes do not match the number of chunks of a block");
  }
}

}  // namespace heapsnap
