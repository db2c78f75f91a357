// Bytes of an ELF file as searches need them: its constants, its names, its initialised variables.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "elf/elf_image.h"

namespace heapsnap {

// File images of the segments that are loaded but not writable: text and constants.
std::vector<std::string_view> constant_bytes(const ElfImage& image);

// Position of `needle` in `haystack`, or npos. As std::string_view::find, at memory speed.
size_t find_text(std::string_view haystack, std::string_view needle);

// Whether `text`, NUL-terminated, is among the constants.
bool has_constant(const ElfImage& image, std::string_view text);

// .dynstr: the names of dynamic symbols, versions and needed libraries, each ended by a NUL. Empty
// when there are no section headers.
std::string_view symbol_names(const ElfImage& image);

// Whether `image` defines a dynamic symbol of that name. Costs little where it does not: the hash
// table is asked before the symbols are read.
bool exports(const ElfImage& image, std::string_view name);

// Whether [address, address + size) lies in one writable PT_LOAD.
bool is_writable(const ElfImage& image, uint64_t address, uint64_t size);

// The word at an address of the file, zero-extended; nothing outside of the file image.
std::optional<uint64_t> file_word(const ElfImage& image, uint64_t address, unsigned word);

// First value of a DT_* tag in PT_DYNAMIC.
std::optional<uint64_t> dynamic_value(const ElfImage& image, int64_t tag);

}  // namespace heapsnap
