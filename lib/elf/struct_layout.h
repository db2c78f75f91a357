// Offsets of the members of a C struct, from DWARF.
//
// Members of unnamed structs and unions inside count as members of the struct itself, as in C. A
// name may also be that of a typedef of a struct. What dwz has moved into partial units or into an
// alternate file (.gnu_debugaltlink) is found there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "elf/elf_image.h"

namespace heapsnap {

struct StructLayout {
  uint64_t size = 0;
  struct Member {
    uint64_t offset = 0;
    uint64_t size = 0;  // of the whole member (array length included); 0 when unknown
    bool operator==(const Member&) const = default;
  };
  std::map<std::string, Member, std::less<>> members;
  bool operator==(const StructLayout&) const = default;
};

// The layouts of the named structs (complete definitions only) in the DWARF of `debug_file`, in one
// pass over its units that ends as soon as all are found. The unit of the code at the address
// `code` is looked at first, and the others only when it does not have all of them: of glibc's
// debug file that is a third of the work. Structs that are not found are left out. Never throws for
// damaged DWARF: what is unreadable is not found.
std::map<std::string, StructLayout, std::less<>> read_struct_layouts(
    const ElfImage& debug_file, const std::vector<std::string>& struct_names,
    std::optional<uint64_t> code = std::nullopt);

}  // namespace heapsnap
