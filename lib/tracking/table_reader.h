// Reads one of the tracker's growing tables (tracker::ChunkedTable) out of a process that may have
// overwritten anything.
//
// Entries come in pieces of bounded size, so memory is taken only for what was really read.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "target/memory_reader.h"
#include "tracker/table_layout.h"

namespace heapsnap {

class TableReader {
 public:
  // Whether `table` can hold entries of `smallest_entry` bytes and more.
  TableReader(MemoryReader& memory, const tracker::ChunkedTable& table, size_t smallest_entry);

  // What the table says of itself makes no sense: nothing can be read.
  bool is_damaged() const { return damaged_; }
  // Entries that the table has by its own word, as far as its chunks could hold them.
  uint64_t count() const { return count_; }

  // Gives entries [0, min(count(), limit)) to receive(index, entry), in order. False when it
  // stopped early because memory could not be read.
  template <typename Entry, typename Receive>
  bool each(uint64_t limit, Receive receive) {
    const uint64_t end = std::min(count_, limit);
    std::vector<std::byte> bytes;
    for (uint64_t first = 0; first < end;) {
      const uint64_t entries = read_piece(first, end, bytes);
      if (entries == 0) return false;
      for (uint64_t i = 0; i < entries; ++i) {
        Entry entry;
        std::memcpy(&entry, bytes.data() + i * table_.entry_size, sizeof(Entry));
        receive(first + i, entry);
      }
      first += entries;
    }
    return true;
  }

 private:
  // Reads some entries from `first` on; gives how many.
  uint64_t read_piece(uint64_t first, uint64_t end, std::vector<std::byte>& bytes);
  // The address of a chunk of entries.
  std::optional<Address> chunk(uint64_t index);

  MemoryReader& memory_;
  tracker::ChunkedTable table_;
  bool damaged_ = false;
  uint64_t count_ = 0;
  // Addresses of chunks [first_chunk_, first_chunk_ + known_chunks_).
  std::array<uint64_t, 64> chunks_{};
  uint64_t first_chunk_ = 0;
  uint64_t known_chunks_ = 0;
};

}  // namespace heapsnap
