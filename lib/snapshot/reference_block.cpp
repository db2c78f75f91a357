#include "snapshot/reference_block.h"

#include <algorithm>

#include "base/byte_reader.h"
#include "snapshot/byte_writer.h"
#include "snapshot/table_check.h"

namespace heapsnap {
namespace {

enum ReferenceColumn : size_t {
  kFirst,
  kCounts,
  kLargeCounts,
  kOffsets,
  kLargeOffsets,
  kTargets,
  kInteriorBits,
  kReferenceColumns
};

constexpr uint32_t kMostInSection = 64U << 10;  // blocks, and references
constexpr uint8_t kLargeCode = format::kLargeReferenceCode;

// What stands for a value in a column of bytes; one that does not fit goes to `large`.
std::byte code_of(uint32_t value, Bytes& large) {
  if (value < kLargeCode) return static_cast<std::byte>(value);
  append_varint(large, value);
  return std::byte{kLargeCode};
}

constexpr uint32_t fold(uint32_t difference) {
  return (difference << 1) ^ (0 - (difference >> 31));
}
constexpr uint32_t unfold(uint32_t folded) {
  return (folded >> 1) ^ (0 - (folded & 1));
}

}  // namespace

ReferenceBlockBuilder::ReferenceBlockBuilder(SectionSink& sink) : sink_(sink) {
  section_.kind = format::SectionKind::kReferences;
  section_.columns.resize(kReferenceColumns);
  for (size_t i = 0; i < kReferenceColumns; ++i) {
    section_.columns[i].id = static_cast<uint16_t>(format::kReferenceFirstBlock + i);
  }
}

void ReferenceBlockBuilder::open_section(BlockNumber first) {
  section_.columns[kFirst].bytes.clear();
  append_varint(section_.columns[kFirst].bytes, first);
  section_.columns[kCounts].bytes.resize(kMostInSection);
  section_.columns[kOffsets].bytes.resize(kMostInSection);
  section_.columns[kInteriorBits].bytes.assign(kMostInSection / 8, std::byte{});
  targets_.resize(kMostInSection);
}

// Bytes may be anything, also members: what is used in the loop is not read from there.
inline void ReferenceBlockBuilder::append(const ReferenceBatch& batch, size_t first, uint32_t count,
                                          const Room& room, uint32_t at) {
  const uint32_t* const from_offsets = batch.offsets.data() + first;
  const BlockNumber* const from_targets = batch.targets.data() + first;
  const uint8_t* const interior = batch.interior.data() + first;
  uint32_t last_offset = last_offset_;
  BlockNumber last_target = last_target_;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t offset = from_offsets[i];
    const BlockNumber target = from_targets[i];
    room.offsets[at + i] = code_of(offset - last_offset, *room.large_offsets);
    room.targets[at + i] = fold(target - last_target);
    last_offset = offset;
    last_target = target;
    if (interior[i] == 0) continue;
    room.interior_bits[(at + i) / 8] |= std::byte{1} << ((at + i) % 8);
  }
  last_offset_ = last_offset;
  last_target_ = last_target;
}

ReferenceBlockBuilder::Room ReferenceBlockBuilder::room() {
  return {section_.columns[kCounts].bytes.data(),       &section_.columns[kLargeCounts].bytes,
          section_.columns[kOffsets].bytes.data(),      &section_.columns[kLargeOffsets].bytes,
          section_.columns[kInteriorBits].bytes.data(), targets_.data()};
}

bool ReferenceBlockBuilder::is_full() const {
  return items_ >= kMostInSection || section_references_ >= kMostInSection;
}

void ReferenceBlockBuilder::begin_block() {
  last_offset_ = 0;
  last_target_ = next_++;
}

// Those that fit; of the others, the first one is split.
void ReferenceBlockBuilder::append_whole(const ReferenceBatch& batch, Rest& rest) {
  if (items_ == 0) open_section(next_);
  const Room to = room();
  uint32_t items = items_;
  uint32_t at = section_references_;
  for (; rest.block < batch.counts.size() && items < kMostInSection; ++rest.block) {
    const uint32_t count = batch.counts[rest.block];
    if (count > kMostInSection - at) break;
    begin_block();
    append(batch, rest.reference, count, to, at);
    to.counts[items++] = code_of(count, *to.large_counts);
    rest.reference += count;
    at += count;
  }
  items_ = items;
  section_references_ = at;
}

// The block before next_, in as many sections as it takes.
void ReferenceBlockBuilder::append_split(const ReferenceBatch& batch, Rest& rest) {
  for (uint32_t left = batch.counts[rest.block++];;) {
    if (items_ == 0) open_section(next_ - 1);
    const Room to = room();
    const uint32_t fit = std::min(left, kMostInSection - section_references_);
    append(batch, rest.reference, fit, to, section_references_);
    to.counts[items_++] = code_of(fit, *to.large_counts);
    section_references_ += fit;
    rest.reference += fit;
    left -= fit;
    if (left == 0) return;
    flush();
  }
}

void ReferenceBlockBuilder::add(const ReferenceBatch& batch) {
  Rest rest;
  if (!batch.counts.empty() && continues(batch)) {
    flush();
    append_split(batch, rest);
  }
  while (rest.block < batch.counts.size()) {
    if (is_full()) flush();
    append_whole(batch, rest);
    if (rest.block == batch.counts.size() || is_full()) continue;
    begin_block();
    append_split(batch, rest);
  }
  references_ += rest.reference;
}

void ReferenceBlockBuilder::flush() {
  if (items_ == 0) return;
  write_planes(section_.columns[kTargets].bytes, std::span(targets_).first(section_references_));
  section_.columns[kCounts].bytes.resize(items_);
  section_.columns[kOffsets].bytes.resize(section_references_);
  section_.columns[kInteriorBits].bytes.resize((section_references_ + 7) / 8);
  section_.items = items_;
  sink_.add(section_);
  for (Section::Column& column : section_.columns) column.bytes.clear();
  section_references_ = 0;
  items_ = 0;
}

void ReferenceBlockReader::unpack_counts(const Columns& columns, uint32_t items,
                                         const std::string& source) {
  check_table(columns.counts.size() == items, source, "counts do not match the number of blocks");
  ByteReader large(columns.large_counts, source);
  counts_.resize(items);
  uint64_t sum = 0;
  for (uint32_t i = 0; i < items; ++i) {
    const auto code = static_cast<uint8_t>(columns.counts[i]);
    const uint64_t count = code == kLargeCode ? large.read_varint() : code;
    check_table(count <= columns.offsets.size(), source, "a block has too many references");
    counts_[i] = static_cast<uint32_t>(count);
    sum += count;
  }
  check_table(large.at_end() && sum == columns.offsets.size(), source,
              "counts do not match the number of references");
  check_table(sum <= references_left_, source,
              "the file decompresses to more than a file of its size may");
  references_left_ -= sum;
}

// Offsets ascend in a block, also where it is split.
void ReferenceBlockReader::unpack_offsets(const Columns& columns, const std::string& source) {
  ByteReader large(columns.large_offsets, source);
  offsets_.resize(columns.offsets.size());
  size_t reference = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    const bool goes_on = i == 0 && continues_;
    uint64_t offset = goes_on ? last_offset_ : 0;
    bool has_last = goes_on && has_last_;
    for (uint32_t k = 0; k < counts_[i]; ++k, ++reference) {
      const auto code = static_cast<uint8_t>(columns.offsets[reference]);
      const uint64_t more = code == kLargeCode ? large.read_varint() : code;
      check_table(more <= UINT32_MAX - offset && (more != 0 || !has_last), source,
                  "offsets of references do not ascend");
      offset += more;
      has_last = true;
      offsets_[reference] = static_cast<uint32_t>(offset);
    }
    last_offset_ = static_cast<uint32_t>(offset);
    has_last_ = has_last;
  }
  check_table(large.at_end(), source, "there are more large offsets than references");
}

void ReferenceBlockReader::unpack_targets(const Columns& columns, const std::string& source) {
  const size_t count = columns.offsets.size();
  check_table(columns.targets.size() == count * sizeof(uint32_t), source,
              "targets do not match the number of references");
  check_table(columns.interior_bits.size() == (count + 7) / 8, source,
              "interior bits do not match the number of references");
  targets_.resize(count);
  interior_.resize(count);
  const std::byte* const planes = columns.targets.data();
  size_t reference = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    BlockNumber target = i == 0 && continues_ ? last_target_ : first_ + static_cast<BlockNumber>(i);
    for (uint32_t k = 0; k < counts_[i]; ++k, ++reference) {
      uint32_t folded = 0;
      for (unsigned plane = 0; plane < 4; ++plane) {
        folded |= static_cast<uint32_t>(planes[plane * count + reference]) << (8 * plane);
      }
      target += unfold(folded);
      check_table(target < blocks_, source, "a reference to a block that does not exist");
      targets_[reference] = target;
      interior_[reference] =
          static_cast<uint8_t>(columns.interior_bits[reference / 8] >> (reference % 8)) & 1;
    }
    last_target_ = target;
  }
}

void ReferenceBlockReader::read(const Columns& columns, uint32_t items, const std::string& source,
                                ReferenceSink& sink) {
  ByteReader head(columns.first_block, source);
  const uint64_t first = head.read_varint();
  continues_ = next_ != 0 && first == next_ - 1;
  check_table(head.at_end() && items != 0 && (continues_ || first == next_) &&
                  fits_within(first, items, blocks_),
              source, "its blocks do not follow those before it");
  first_ = static_cast<BlockNumber>(first);
  unpack_counts(columns, items, source);
  unpack_targets(columns, source);
  unpack_offsets(columns, source);
  next_ = first_ + items;
  sink.on_references({first_, counts_, offsets_, targets_, interior_});
}

void ReferenceBlockReader::finish(const std::string& source) const {
  check_table(next_ == blocks_, source, "references of some blocks are missing");
}

}  // namespace heapsnap
