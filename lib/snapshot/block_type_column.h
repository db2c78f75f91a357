// The types of blocks: a table of their names, and a number for each block.
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
    column("bytes", row.bytes);
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

}  // namespace heapsnap
