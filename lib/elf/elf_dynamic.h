// The dynamic section of an ELF file: where the loader finds symbols and relocations without any
// section headers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "elf/elf_headers.h"

namespace heapsnap {

class ElfDynamic {
 public:
  // Empty when the file has no PT_DYNAMIC.
  static ElfDynamic parse(const ElfHeaders& headers);

  bool is_empty() const { return values_.empty(); }
  // First value of a DT_* tag.
  std::optional<uint64_t> value(int64_t tag) const;
  // File bytes of the table at the address in `address_tag`, `size_tag` bytes long.
  std::span<const std::byte> table(const ElfHeaders& headers, int64_t address_tag,
                                   int64_t size_tag) const;
  // Number of entries in the symbol table, from DT_HASH or else DT_GNU_HASH, which alone know it.
  // Not checked against the size of the file. With a GNU hash that covers no symbol (nothing
  // exported) it is the index of the first symbol that would be covered.
  uint64_t symbol_count(const ElfHeaders& headers) const;

 private:
  std::map<int64_t, uint64_t> values_;
};

}  // namespace heapsnap
