// The notes of an ELF file: (owner, type, descriptor) records, see elf(5) "Notes (Nhdr)".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "elf/elf_headers.h"

namespace heapsnap {

struct ElfNote {
  std::string_view owner;  // "GNU", "CORE", "LINUX"; without its NUL
  uint32_t type = 0;
  std::span<const std::byte> descriptor;
};

// The records of a note segment or section; stops at the first that does not fit. `alignment` is
// that of the segment: 8 pads descriptors to 8 bytes (.note.gnu.property), everything else to 4.
std::vector<ElfNote> parse_notes(std::span<const std::byte> bytes, uint64_t alignment);

// Calls `visit` with each note of the PT_NOTE segments until it gives false.
void for_each_note(const ElfHeaders& headers, const std::function<bool(const ElfNote&)>& visit);

// Lower-case hex.
std::string hex_text(std::span<const std::byte> bytes);

// Lower-case hex of NT_GNU_BUILD_ID; empty when the file has none.
std::string find_build_id(const ElfHeaders& headers);

}  // namespace heapsnap
