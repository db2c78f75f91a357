// An ELF file (executable, shared object, separate debug file) as plain data.
//
// Addresses in here are the file's own virtual addresses (st_value, p_vaddr). Adding the load bias,
// which only the target's mappings tell, gives addresses in the target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "target/process.h"

namespace heapsnap {

struct ElfSegment {
  uint32_t type = 0;   // PT_*
  uint32_t flags = 0;  // PF_*
  uint64_t file_offset = 0;
  uint64_t address = 0;
  uint64_t file_size = 0;
  uint64_t memory_size = 0;
  uint64_t alignment = 0;
};

struct ElfSection {
  std::string name;
  uint32_t type = 0;   // SHT_*
  uint64_t flags = 0;  // SHF_*
  uint64_t address = 0;
  uint64_t file_offset = 0;
  uint64_t size = 0;
  uint32_t link = 0;  // sh_link: of a symbol table, the index of its string table
};

struct ElfSymbol {
  std::string_view name;  // view of the file
  uint64_t value = 0;
  uint64_t size = 0;
  uint8_t type = 0;     // STT_*
  uint8_t binding = 0;  // STB_*
  bool is_defined = false;
};

// One dynamic relocation; RELR entries are expanded. `addend` is the stored one: for REL and RELR
// it is read from the word in the file.
struct ElfRelocation {
  uint64_t offset = 0;
  uint32_t type = 0;    // R_X86_64_*, ...
  uint32_t symbol = 0;  // index into .dynsym, 0 for none
  uint64_t addend = 0;
};

class ElfImage {
 public:
  // Throw Error{kBadInput} when the bytes are not an ELF file for a machine that we know.
  static ElfImage from_file(MappedFile file, std::string name);
  // The bytes must outlive the image.
  static ElfImage from_bytes(std::span<const std::byte> bytes, std::string name);

  ElfImage(ElfImage&&) noexcept;
  ElfImage& operator=(ElfImage&&) noexcept;
  ~ElfImage();

  const std::string& name() const;
  Machine machine() const;
  uint16_t type() const;   // ET_EXEC, ET_DYN, ...
  uint64_t entry() const;  // where the kernel or the loader starts it; 0: nowhere
  const std::vector<ElfSegment>& segments() const;
  const std::vector<ElfSection>& sections() const;  // empty when stripped of section headers
  const ElfSection* section(std::string_view name) const;
  const ElfSegment* segment_of(uint64_t address) const;  // the PT_LOAD that holds it
  const ElfSegment* tls_segment() const;                 // PT_TLS
  bool has_interpreter() const;                          // PT_INTERP

  // Lower-case hex of NT_GNU_BUILD_ID, found by program headers; empty when there is none.
  const std::string& build_id() const;
  // File name and CRC-32 of .gnu_debuglink.
  struct DebugLink {
    std::string file_name;
    uint32_t crc = 0;
  };
  std::optional<DebugLink> debug_link() const;

  // .dynsym (found by PT_DYNAMIC when there are no section headers) and .symtab, also those in the
  // LZMA-compressed .gnu_debugdata. Read once, then cached. Damaged tables give what is sound.
  const std::vector<ElfSymbol>& dynamic_symbols() const;
  const std::vector<ElfSymbol>& symbols() const;
  // First defined symbol of that name, .symtab before .dynsym.
  const ElfSymbol* find_symbol(std::string_view name) const;
  // The same of .dynsym alone: what is left of names where a file was stripped.
  const ElfSymbol* find_dynamic_symbol(std::string_view name) const;

  std::vector<ElfRelocation> relocations() const;

  // File bytes at a virtual address; shorter than `size` (down to empty) at the end of the
  // segment's file image.
  std::span<const std::byte> bytes_at(uint64_t address, uint64_t size) const;
  std::span<const std::byte> file_bytes() const;

 private:
  struct Parsed;
  explicit ElfImage(std::unique_ptr<Parsed> parsed);
  std::unique_ptr<Parsed> parsed_;
};

}  // namespace heapsnap
