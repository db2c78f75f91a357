// Which line of its source an iseq of Ruby is at.
//
// The lines are in an array of entries, in the order of the code (struct iseq_insn_info_entry). How
// many begin up to a word of the code an index says (struct succ_index_table of iseq.c): a count
// for each of the first 54 words, seven bits each and nine to a word; then for each 512 words a
// count, the counts that the eight parts of it add, nine bits each but the first, and a bit for
// each word at which a line begins.
//
// Nothing of the tables is taken for granted: they are read from a process.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/count_bits.h"

namespace heapsnap {

struct RubyLineTable {
  uint64_t code_words = 0;
  uint64_t line_count = 0;
  uint32_t line_bytes = 0;   // of an entry
  uint32_t line_number = 0;  // where in it
  uint32_t index_blocks = 0;
  uint32_t index_block_bytes = 0;
};

// How many lines begin up to a word. `index(offset, bytes)` gives a word of the index, or nothing.
template <typename Index>
std::optional<uint64_t> ruby_lines_up_to(const RubyLineTable& table, uint64_t word, Index index) {
  constexpr uint64_t kInWord = 9;
  constexpr unsigned kCountBits = 7;
  constexpr uint64_t kBlockWords = 512;
  constexpr uint64_t kPartWords = 64;
  constexpr unsigned kPartBits = 9;
  const uint64_t counted = table.index_blocks / 8 * kInWord;
  if (word < counted) {
    const std::optional<uint64_t> counts = index(word / kInWord * 8, 8U);
    if (!counts) return std::nullopt;
    return *counts >> (word % kInWord * kCountBits) & 0x7f;
  }
  const uint64_t in_blocks = word - counted;
  const uint64_t block =
      table.index_blocks + in_blocks / kBlockWords * uint64_t{table.index_block_bytes};
  const uint64_t part = in_blocks % kBlockWords / kPartWords;
  const std::optional<uint64_t> before = index(block, 4U);
  const std::optional<uint64_t> of_parts = index(block + 8, 8U);
  const std::optional<uint64_t> bits = index(block + 16 + part * 8, 8U);
  if (!before || !of_parts || !bits) return std::nullopt;
  const uint64_t of_part = part == 0 ? 0 : *of_parts >> ((part - 1) * kPartBits) & 0x1ff;
  return *before + of_part + count_bits(*bits << (kPartWords - 1 - in_blocks % kPartWords));
}

// The line of a frame whose pc is `offset` bytes behind the first instruction: it leads to the next
// one. `lines(offset, bytes)` gives a word of the entries. 0: the tables do not say.
template <typename Index, typename Lines>
uint32_t ruby_line(const RubyLineTable& table, uint64_t offset, Index index, Lines lines) {
  if (table.line_count == 0 || offset % 8 != 0 || offset / 8 > table.code_words) return 0;
  const uint64_t word = std::max<uint64_t>(offset / 8, 1) - 1;
  const std::optional<uint64_t> count =
      table.line_count == 1 ? std::optional<uint64_t>(1) : ruby_lines_up_to(table, word, index);
  if (!count || *count == 0 || *count > table.line_count) return 0;
  const std::optional<uint64_t> line =
      lines((*count - 1) * table.line_bytes + table.line_number, 4U);
  return static_cast<uint32_t>(line.value_or(0));
}

}  // namespace heapsnap
