// A hash table of Ruby's from a word to a word: st_table (st.h), the same from 2.7 to 3.4.
//
//   | powers | type | count | bins | first | bound | entries |
//                                                       │
//                                                       v
//                                  | hash | key | value | hash | key | value | ..
//
// Entries are in the order in which they were added, from the first one that is not deleted up to
// the bound. A deleted one has another hash, and its key and value are still there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "target/memory_reader.h"
#include "target/page_cache.h"

namespace heapsnap {

// How much of a st_table has to be known, and all that it takes, itself included.
inline constexpr size_t kRubyTableHeader = 56;
uint64_t ruby_table_bytes(std::span<const std::byte> table);

struct RubyTable {
  static constexpr uint64_t kType = 8;    // functions that compare keys
  static constexpr uint64_t kCount = 16;  // of entries that are not deleted
  static constexpr uint64_t kBins = 24;
  static constexpr uint64_t kFirst = 32;
  static constexpr uint64_t kBound = 40;
  static constexpr uint64_t kEntries = 48;
  static constexpr uint64_t kEntryWords = 3;
  static constexpr uint64_t kEntry = kEntryWords * 8;  // bytes
  static constexpr uint64_t kDeleted = ~uint64_t{0};   // the hash of one: RESERVED_HASH_VAL

  struct Entry {
    uint64_t hash = 0;
    uint64_t key = 0;
    uint64_t value = 0;
    bool is_deleted() const { return hash == kDeleted; }
  };

  // Nothing where there cannot be one that has entries.
  static std::optional<RubyTable> at(PageCache& cache, uint64_t address);

  // Of its entries those from `from` on, before `to`; fewer where they cannot be read.
  std::vector<Entry> read(MemoryReader& memory, uint64_t from, uint64_t to) const;

  Address place;
  std::array<std::byte, kRubyTableHeader> header;
  Address type;
  Address entries;
  uint64_t first = 0;
  uint64_t bound = 0;
  uint64_t count = 0;
};

}  // namespace heapsnap
