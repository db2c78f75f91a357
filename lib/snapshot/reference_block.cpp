#include "snapshot/reference_block.h"

#include <bit>

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

constexpr uint32_t kMostInSection = 256U << 10;  // blocks, and references
constexpr uint8_t kLargeCode = format::kLargeReferenceCode;

void append_code(Bytes& codes, Bytes& large, uint64_t value) {
  codes.push_back(static_cast<std::byte>(value < kLargeCode ? value : kLargeCode));
  if (value >= kLargeCode) append_varint(large, value);
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

void ReferenceBlockBuilder::open_block(BlockNumber block) {
  if (items_ == 0) append_varint(section_.columns[kFirst].bytes, block);
  ++items_;
  count_ = 0;
}

void ReferenceBlockBuilder::close_block() {
  append_code(section_.columns[kCounts].bytes, section_.columns[kLargeCounts].bytes, count_);
}

void ReferenceBlockBuilder::append(uint32_t offset, BlockNumber target, bool interior) {
  append_code(section_.columns[kOffsets].bytes, section_.columns[kLargeOffsets].bytes,
              offset - last_offset_);
  targets_.push_back(fold(target - last_target_));
  interior_.push_back(interior ? 1 : 0);
  last_offset_ = offset;
  last_target_ = target;
  ++count_;
}

void ReferenceBlockBuilder::add(const ReferenceBatch& batch) {
  size_t reference = 0;
  bool goes_on = continues(batch);
  for (const uint32_t count : batch.counts) {
    if (goes_on || items_ >= kMostInSection || targets_.size() >= kMostInSection) flush();
    const BlockNumber block = goes_on ? batch.first : next_++;
    open_block(block);
    if (!goes_on) {
      last_offset_ = 0;
      last_target_ = block;
    }
    goes_on = false;
    for (uint32_t i = 0; i < count; ++i, ++reference) {
      if (targets_.size() >= kMostInSection) {
        close_block();
        flush();
        open_block(block);
      }
      append(batch.offsets[reference], batch.targets[reference], batch.interior[reference] != 0);
    }
    close_block();
  }
  references_ += reference;
}

void ReferenceBlockBuilder::flush() {
  if (items_ == 0) return;
  Bytes& planes = section_.columns[kTargets].bytes;
  planes.resize(targets_.size() * sizeof(uint32_t));
  std::byte* out = planes.data();
  for (unsigned plane = 0; plane < 32; plane += 8) {
    for (const uint32_t target : targets_) *out++ = static_cast<std::byte>(target >> plane);
  }
  Bytes& bits = section_.columns[kInteriorBits].bytes;
  bits.assign((interior_.size() + 7) / 8, std::byte{});
  for (size_t i = 0; i < interior_.size(); ++i) {
    bits[i / 8] |= static_cast<std::byte>(interior_[i] << (i % 8));
  }
  section_.items = items_;
  sink_.add(section_);
  for (Section::Column& column : section_.columns) column.bytes.clear();
  targets_.clear();
  interior_.clear();
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
