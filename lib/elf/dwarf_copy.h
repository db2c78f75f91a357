// What libdw gets of an ELF file: a copy with the debug sections that are asked for.
//
//   file:         | headers | .debug_info (packed) | .debug_line | section headers |
//   copy:         | headers | .debug_info (packed) | 0 0 0       | section headers |
//   of one unit:  | headers | 0 0 0                              | section headers | 0 0 0 | unit |
//
// dwarf_begin_elf() unpacks every debug section that it knows, at once: of glibc's debug file,
// three times as much as what malloc's own structs are in. One of type SHT_NOBITS it passes over.
// And libelf writes to the bytes that it is given (it clears SHF_COMPRESSED of what it has
// unpacked).
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>

#include "elf/elf_image.h"

namespace heapsnap {

struct DwarfCopy {
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes;  // null: there is none
  size_t size = 0;
};

// Of the debug sections those whose name is "." or ".z", "debug_" and one of `wanted` ("info").
// None when memory is short.
DwarfCopy copy_for_dwarf(const ElfImage& file, std::span<const std::string_view> wanted);

// With nothing in .debug_info but the unit of the code at `address`, at its place behind a unit
// that has no entry. A reference from it to another unit leads to no entry. None where
// .debug_aranges does not tell which unit it is.
DwarfCopy copy_unit_for_dwarf(const ElfImage& file, std::span<const std::string_view> wanted,
                              uint64_t address);

}  // namespace heapsnap
