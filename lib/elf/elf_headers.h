// The headers of an ELF file: what it is for, its segments and its sections.
//
// Reads ELF32 and ELF64, little-endian, for the machines that we know. A table that reaches past
// the end of the file (a truncated core) gives the entries that are there.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_reader.h"
#include "elf/elf_image.h"

namespace heapsnap {

// The record at `offset` of `bytes`; nothing when it does not fit.
template <typename T>
std::optional<T> load_record(std::span<const std::byte> bytes, uint64_t offset) {
  if (!fits_within(offset, sizeof(T), bytes.size())) return std::nullopt;
  T record;
  std::memcpy(&record, bytes.data() + offset, sizeof(T));
  return record;
}

// The part of `bytes` that [offset, offset + size) covers; shorter at the end.
std::span<const std::byte> clipped(std::span<const std::byte> bytes, uint64_t offset,
                                   uint64_t size);

// The NUL-terminated text at `offset`, at most `limit` bytes; empty where there is none.
std::string_view text_at(std::span<const std::byte> bytes, uint64_t offset, size_t limit);

// Record types of the two classes, so that a table is read by one template for both.
struct Elf32Records {
  using Header = Elf32_Ehdr;
  using Segment = Elf32_Phdr;
  using Section = Elf32_Shdr;
  using Symbol = Elf32_Sym;
  using Dynamic = Elf32_Dyn;
  using Rel = Elf32_Rel;
  using Rela = Elf32_Rela;
  using Word = uint32_t;
  static constexpr uint32_t relocation_type(uint64_t info) { return ELF32_R_TYPE(info); }
  static constexpr uint32_t relocation_symbol(uint64_t info) {
    return static_cast<uint32_t>(ELF32_R_SYM(info));
  }
};
struct Elf64Records {
  using Header = Elf64_Ehdr;
  using Segment = Elf64_Phdr;
  using Section = Elf64_Shdr;
  using Symbol = Elf64_Sym;
  using Dynamic = Elf64_Dyn;
  using Rel = Elf64_Rel;
  using Rela = Elf64_Rela;
  using Word = uint64_t;
  static constexpr uint32_t relocation_type(uint64_t info) {
    return static_cast<uint32_t>(ELF64_R_TYPE(info));
  }
  static constexpr uint32_t relocation_symbol(uint64_t info) {
    return static_cast<uint32_t>(ELF64_R_SYM(info));
  }
};

struct ElfHeaders {
  std::span<const std::byte> bytes;  // the whole file
  Machine machine = Machine::kX86_64;
  uint16_t type = ET_NONE;
  uint64_t entry = 0;
  std::vector<ElfSegment> segments;
  std::vector<ElfSection> sections;
  // False in a separate debug file: its program headers are those of the stripped file, but what
  // they point at is not there.
  bool has_segment_contents = true;

  // Throws Error{kBadInput} when `bytes` are not an ELF file for a machine that we know.
  static ElfHeaders parse(std::span<const std::byte> bytes, const std::string& name);

  bool is_64_bit() const { return machine != Machine::kI386; }
  // Contents of a section as they lie in the file; empty for SHT_NOBITS.
  std::span<const std::byte> contents(const ElfSection& section) const;
  std::span<const std::byte> contents(const ElfSegment& segment) const;
  const ElfSection* section(std::string_view name) const;
  const ElfSection* section_of_type(uint32_t section_type) const;
  const ElfSegment* segment_of_type(uint32_t segment_type) const;
  const ElfSegment* segment_of(uint64_t address) const;
  std::span<const std::byte> bytes_at(uint64_t address, uint64_t size) const;

  // Calls `visitor` with the record types of this file's class and gives what it gives.
  template <typename Visitor>
  auto with_records(Visitor visitor) const {
    return is_64_bit() ? visitor(Elf64Records{}) : visitor(Elf32Records{});
  }
};

}  // namespace heapsnap
