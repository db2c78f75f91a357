// The layout of malloc's structures according to the debug information of the target's libc.
//
// Debug information takes precedence over the table of malloc_layout.h: distributors patch, and
// versions come out after the table was written. What a layout contains besides offsets
// (safe-linking, how mmapped sizes are stored) comes from the table.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "elf/struct_layout.h"
#include "heap/malloc_layout.h"

namespace heapsnap {

using StructLayouts = std::map<std::string, StructLayout, std::less<>>;

struct DebugLayout {
  MallocLayout layout;
  std::vector<std::string> disagreements;  // with the table, each a sentence
};

// The structs that layout_from_structs() looks at, by their names in DWARF.
const std::vector<std::string>& malloc_struct_names();

// Overrides `table` with `structs`. Nothing when malloc_state or malloc_par is missing or lacks a
// member that a walk needs: a partial layout is not mixed with the table. Members that lie outside
// of their struct count as missing.
std::optional<DebugLayout> layout_from_structs(const StructLayouts& structs,
                                               const MallocLayout& table);

}  // namespace heapsnap
