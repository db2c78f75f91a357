// The types of blocks: a table of their names, and a number for each block; and, in sections of the
// same kind as that table, which of their words are spare.
//
//   first block   its number, a varint
//   types         four bytes a block, the number of its type; the lowest bytes of all, then the
//                 next ones
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "references/block_type.h"
#include "references/reference.h"
#include "snapshot/section.h"
#include "snapshot/table.h"

namespace heapsnap {

template <>
struct TableOf<BlockType> {
  static constexpr const char* kName = "types";
  static void columns(auto& column, auto& row) {
    column("name", row.name);
    column("module", row.module);
    column("source", row.source);
    column("builtin", row.builtin);
    column("part", row.part);
    column("is_exact", row.is_exact);
    column("pointers", row.pointers);
  }
};

// A row of the table `spare_words`.
struct SpareRow {
  Address block;  // a number, stored as the difference to the row before
  uint32_t first = 0;
};

template <>
struct TableOf<SpareRow> {
  static constexpr const char* kName = "spare_words";
  static void columns(auto& column, auto& row) {
    column("block", row.block);
    column("first", row.first);
  }
};

class BlockTypeBuilder {
 public:
  // Full sections go to `sink`.
  explicit BlockTypeBuilder(SectionSink& sink);

  // Of the next blocks.
  void add(std::span<const TypeNumber> types);
  // Hands over what is left, and the names. Call it after the last block.
  void finish(std::span<const BlockType> names);
  // Ascending, each block once. Not more than format::kMaxSpareRows are kept.
  void add_spare(std::span<const SpareWords> words);

 private:
  void flush();

  SectionSink& sink_;
  Section section_;
  BlockNumber first_ = 0;  // of the section
  std::vector<TypeNumber> types_;
};

// Gives the types of the blocks of one section, from `*next` on, which is moved past them. Throws
// Error{kBadInput} when the columns do not fit together or with `types`, the number of names.
void read_block_types(std::span<const std::byte> first_block, std::span<const std::byte> planes,
                      uint32_t items, size_t types, const std::string& source, BlockNumber* next,
                      const std::function<void(BlockNumber, std::span<const TypeNumber>)>& receive);
// Adds the names in one table of types. Throws Error{kBadInput} for damage and for too many.
void read_type_names(std::span<const std::byte> table, const std::string& source,
                     std::vector<BlockType>& types);
// Adds the rows of one table, if it is one of spare words. Throws Error{kBadInput} for damage, for
// blocks that do not ascend or do not exist, and for too many.
void read_spare_words(std::span<const std::byte> table, const std::string& source,
                      BlockNumber blocks, std::vector<SpareWords>& words);

}  // namespace heapsnap
