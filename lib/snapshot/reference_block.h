// References as columns: equal objects have equal offsets, and neighbours point to neighbours.
//
// A section holds consecutive blocks with their references:
//
//   first block     its number, a varint
//   counts          a byte a block: its references; 255: see next
//   large counts    a varint for each block whose count does not fit
//   offsets         a byte a reference, in words from the one before it in its block; 255: see next
//   large offsets   a varint for each reference whose offset does not fit
//   targets         four bytes a reference: how far its block's number is from that of the block
//                   before it in the same object (the first: from its own block); the lowest bytes
//                   of all, then the next ones
//   interior bits   a bit a reference: 1 where it points inside of a block
//
// A block whose references do not all fit is split: the next section begins with the same block.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "references/reference.h"
#include "snapshot/section.h"

namespace heapsnap {

class ReferenceBlockBuilder {
 public:
  // Full sections go to `sink`.
  explicit ReferenceBlockBuilder(SectionSink& sink);

  // The next blocks, or the last one again and those behind it: then its references go on.
  void add(const ReferenceBatch& batch);
  bool continues(const ReferenceBatch& batch) const {
    return next_ != 0 && batch.first == next_ - 1;
  }
  // Hands over what is left. Call it after the last batch.
  void flush();

  BlockNumber blocks() const { return next_; }  // so far
  uint64_t references() const { return references_; }

 private:
  // Of the section, where its columns are filled.
  struct Room {
    std::byte* counts;
    Bytes* large_counts;
    std::byte* offsets;
    Bytes* large_offsets;
    std::byte* interior_bits;
    uint32_t* targets;
  };
  // What is still to be added of a batch.
  struct Rest {
    size_t block = 0;      // index of the first one
    size_t reference = 0;  // the same
  };

  void open_section(BlockNumber first);
  Room room();
  bool is_full() const;
  // The next one.
  void begin_block();
  // Of the block that began last, `count` references of the batch from `first` on. They get the
  // numbers from `at` on in the section.
  void append(const ReferenceBatch& batch, size_t first, uint32_t count, const Room& room,
              uint32_t at);
  void append_whole(const ReferenceBatch& batch, Rest& rest);
  void append_split(const ReferenceBatch& batch, Rest& rest);

  SectionSink& sink_;
  Section section_;
  BlockNumber next_ = 0;  // the one after the open block
  uint64_t references_ = 0;
  uint32_t section_references_ = 0;
  uint32_t last_offset_ = 0;  // of the reference before, in the open block and over sections
  BlockNumber last_target_ = 0;
  uint32_t items_ = 0;  // blocks in the section
  // Of the section, with room for a full one, as the columns that have one entry each.
  std::vector<uint32_t> targets_;  // as they are stored
};

// Decodes sections, in their order.
class ReferenceBlockReader {
 public:
  struct Columns {
    std::span<const std::byte> first_block;
    std::span<const std::byte> counts;
    std::span<const std::byte> large_counts;
    std::span<const std::byte> offsets;
    std::span<const std::byte> large_offsets;
    std::span<const std::byte> targets;
    std::span<const std::byte> interior_bits;
  };

  // `blocks`: how many there are. `most_references`: that they may have together.
  ReferenceBlockReader(BlockNumber blocks, uint64_t most_references)
      : blocks_(blocks), references_left_(most_references) {}

  // Gives the references of a section of `items` blocks to `sink`: a block that is split comes
  // once in each part. Throws Error{kBadInput} when the columns do not fit together, the section
  // does not follow the one before, or a target is no block.
  void read(const Columns& columns, uint32_t items, const std::string& source, ReferenceSink& sink);
  // After the last section: throws unless all blocks came.
  void finish(const std::string& source) const;

 private:
  void unpack_counts(const Columns& columns, uint32_t items, const std::string& source);
  void unpack_offsets(const Columns& columns, const std::string& source);
  void unpack_targets(const Columns& columns, const std::string& source);

  BlockNumber blocks_;
  uint64_t references_left_;
  BlockNumber first_ = 0;     // of the section
  BlockNumber next_ = 0;      // the one after the last block so far
  bool continues_ = false;    // the section's first block is the last one of the section before
  uint32_t last_offset_ = 0;  // of the last reference of the last block
  BlockNumber last_target_ = 0;
  bool has_last_ = false;  // the last block has had a reference
  std::vector<uint32_t> counts_;
  std::vector<uint32_t> offsets_;
  std::vector<BlockNumber> targets_;
  std::vector<uint8_t> interior_;
};

}  // namespace heapsnap
