// Which line of its source a code object is at.
//
// Each version has a table of bytes that says so, from the first instruction on:
//
//   3.9     pairs: so many bytes of instructions further, so many lines further (co_lnotab,
//           Objects/lnotab_notes.txt)
//   3.10    pairs: the next so many bytes are of a line so many further; -128: of none (PEP 626)
//   3.11    entries: a first byte with the highest bit, a code and a number of instructions, then
//           as many bytes as the code says (Objects/locations.md)
//
// Nothing of a table is taken for granted: it is read from a process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace heapsnap {

enum class PythonLineTable : uint8_t {
  kAddresses,  // co_lnotab
  kRanges,     // co_linetable of 3.10
  kLocations,  // co_linetable since 3.11
};

// The line of the instruction at byte `at` of the code; `first`: that of the code object. 0: of
// none, or the table does not say.
uint32_t python_line(PythonLineTable kind, std::span<const std::byte> table, uint32_t first,
                     uint64_t at);

}  // namespace heapsnap
