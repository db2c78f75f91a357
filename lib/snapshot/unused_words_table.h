// Words of std::string objects that these do not use, as a table in a section of the kind that the
// names of types are in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "references/reference.h"
#include "snapshot/section.h"
#include "snapshot/table.h"

namespace heapsnap {

// A row of the table `unused_words`.
struct UnusedWordRow {
  Address block;  // a number, stored as the difference to the row before
  uint32_t word = 0;
};

template <>
struct TableOf<UnusedWordRow> {
  static constexpr const char* kName = "unused_words";
  static void columns(auto& column, auto& row) {
    column("block", row.block);
    column("word", row.word);
  }
};

// `words`: ascending, each once; none of more than format::kMaxUnusedWords is written.
void write_unused_words(std::span<const UnusedWord> words, SectionSink& sink);
// Adds the rows of one table, if it is one of unused words. Throws Error{kBadInput} for damage, for
// words that do not ascend, or of blocks that do not exist, and for too many.
void read_unused_words(std::span<const std::byte> table, const std::string& source,
                       BlockNumber blocks, std::vector<UnusedWord>& words);

}  // namespace heapsnap
