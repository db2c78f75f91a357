#include "elf/elf_symbols.h"

#include <algorithm>

namespace heapsnap {

namespace {

// A table of a sparse file may be as long as no memory is. Chromium with all its symbols has a
// quarter of this.
constexpr uint64_t kMostSymbols = 4U << 20;

// Bounds the search for the end of a name in a file whose every symbol names one huge text.
constexpr size_t kLongestName = 64 << 10;

std::vector<ElfSymbol> read_table(const ElfHeaders& headers, std::span<const std::byte> table,
                                  std::span<const std::byte> names, uint64_t count) {
  std::vector<ElfSymbol> symbols;
  headers.with_records([&](auto records) {
    using Symbol = typename decltype(records)::Symbol;
    count = std::min({count, kMostSymbols, uint64_t{table.size() / sizeof(Symbol)}});
    symbols.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      const auto symbol = load_record<Symbol>(table, i * sizeof(Symbol));
      symbols.push_back({.name = text_at(names, symbol->st_name, kLongestName),
                         .value = symbol->st_value,
                         .size = symbol->st_size,
                         // The two bit fields are laid out alike in both classes.
                         .type = static_cast<uint8_t>(ELF64_ST_TYPE(symbol->st_info)),
                         .binding = static_cast<uint8_t>(ELF64_ST_BIND(symbol->st_info)),
                         .is_defined = symbol->st_shndx != SHN_UNDEF});
    }
  });
  return symbols;
}

std::vector<ElfSymbol> read_section(const ElfHeaders& headers, uint32_t section_type) {
  const ElfSection* section = headers.section_of_type(section_type);
  if (section == nullptr || section->link >= headers.sections.size()) return {};
  return read_table(headers, headers.contents(*section),
                    headers.contents(headers.sections[section->link]), UINT64_MAX);
}

}  // namespace

std::vector<ElfSymbol> read_static_symbols(const ElfHeaders& headers) {
  return read_section(headers, SHT_SYMTAB);
}

std::vector<ElfSymbol> read_dynamic_symbols(const ElfHeaders& headers, const ElfDynamic& dynamic) {
  auto symbols = read_section(headers, SHT_DYNSYM);
  if (!symbols.empty()) return symbols;
  const auto address = dynamic.value(DT_SYMTAB);
  if (!address) return {};
  return read_table(headers, headers.bytes_at(*address, UINT64_MAX),
                    dynamic.table(headers, DT_STRTAB, DT_STRSZ), dynamic.symbol_count(headers));
}

}  // namespace heapsnap
