// Where each function of a file starts and ends, by its unwind entries (.eh_frame). Every function
// of a C or C++ program has one, even if all symbols were stripped.
//
//   .eh_frame   FDE [0x1000, 0x1040)   FDE [0x1040, 0x1200)   ........   FDE [0x1260, 0x1300)
//                                                             └ code without unwind information
//
// A function that the compiler split (a ".cold" part) has an entry for each part.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "elf/elf_image.h"

namespace heapsnap {

// Addresses [begin, end) of a file.
struct CodeStretch {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool contains(uint64_t address) const { return begin <= address && address < end; }
  bool operator==(const CodeStretch&) const = default;
};

class UnwindEntries {
 public:
  // Reads all entries; skips those that are damaged or lie outside of the code.
  explicit UnwindEntries(const ElfImage& image);

  bool is_empty() const { return entries_.empty(); }
  // The entry that covers the address; of several, the one that starts last.
  std::optional<CodeStretch> entry_at(uint64_t address) const;
  // The code around an address that no entry covers: from the end of the entry before it (or 0) to
  // the start of the next (or UINT64_MAX).
  CodeStretch gap_at(uint64_t address) const;

 private:
  std::vector<CodeStretch> entries_;  // ascending by begin
};

}  // namespace heapsnap
