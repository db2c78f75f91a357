#include "tracker/loaded_symbols.h"

#include <elf.h>

#include <cstdint>

namespace heapsnap::tracker {

namespace {

struct DynamicTables {
  const ElfW(Sym) * symbols;
  const char* strings;
  const uint32_t* gnu_hash;
  const uint32_t* hash;  // what every linker wrote before, and some still do
};

DynamicTables tables_of(const dl_phdr_info& module) {
  DynamicTables tables{};
  const ElfW(Dyn)* dynamic = nullptr;
  for (unsigned i = 0; i < module.dlpi_phnum; ++i) {
    if (module.dlpi_phdr[i].p_type == PT_DYNAMIC) {
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(module.dlpi_addr + module.dlpi_phdr[i].p_vaddr);
    }
  }
  for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; ++dynamic) {
    // ld.so adds the bias in place, where it can.
    uint64_t value = dynamic->d_un.d_ptr;
    if (value < module.dlpi_addr) value += module.dlpi_addr;
    switch (dynamic->d_tag) {
      case DT_SYMTAB: tables.symbols = reinterpret_cast<const ElfW(Sym)*>(value); break;
      case DT_STRTAB: tables.strings = reinterpret_cast<const char*>(value); break;
      case DT_GNU_HASH: tables.gnu_hash = reinterpret_cast<const uint32_t*>(value); break;
      case DT_HASH: tables.hash = reinterpret_cast<const uint32_t*>(value); break;
      default: break;
    }
  }
  return tables;
}

bool is_function(const DynamicTables& tables, uint32_t index, const char* name) {
  const ElfW(Sym)& symbol = tables.symbols[index];
  const unsigned type = ELF64_ST_TYPE(symbol.st_info);
  return symbol.st_shndx != SHN_UNDEF &&
         (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE) &&
         __builtin_strcmp(tables.strings + symbol.st_name, name) == 0;
}

uint32_t find_by_gnu_hash(const DynamicTables& tables, const char* name) {
  uint32_t wanted = 5381;
  for (const char* c = name; *c != 0; ++c) wanted = wanted * 33 + static_cast<uint8_t>(*c);
  const uint32_t* header = tables.gnu_hash;
  const uint32_t* buckets = header + 4 + 2ULL * header[2];
  const uint32_t* chain = buckets + header[0];
  uint32_t index = header[0] != 0 ? buckets[wanted % header[0]] : 0;
  if (index < header[1]) return 0;
  for (;; ++index) {
    const uint32_t value = chain[index - header[1]];
    if ((value | 1) == (wanted | 1) && is_function(tables, index, name)) return index;
    if ((value & 1) != 0) return 0;
  }
}

uint32_t find_by_hash(const DynamicTables& tables, const char* name) {
  uint32_t wanted = 0;
  for (const char* c = name; *c != 0; ++c) {
    wanted = (wanted << 4) + static_cast<uint8_t>(*c);
    wanted = (wanted ^ ((wanted & 0xf0000000) >> 24)) & 0x0fffffff;
  }
  const uint32_t* buckets = tables.hash + 2;
  const uint32_t* chain = buckets + tables.hash[0];
  uint32_t index = tables.hash[0] != 0 ? buckets[wanted % tables.hash[0]] : 0;
  while (index != 0 && !is_function(tables, index, name)) index = chain[index];
  return index;
}

}  // namespace

void* defined_function(const dl_phdr_info& module, const char* name) {
  const DynamicTables tables = tables_of(module);
  if (tables.symbols == nullptr || tables.strings == nullptr) return nullptr;
  uint32_t index = 0;
  if (tables.gnu_hash != nullptr) {
    index = find_by_gnu_hash(tables, name);
  } else if (tables.hash != nullptr) {
    index = find_by_hash(tables, name);
  }
  if (index == 0) return nullptr;
  const ElfW(Sym)& symbol = tables.symbols[index];
  const uint64_t address = module.dlpi_addr + symbol.st_value;
  if (ELF64_ST_TYPE(symbol.st_info) != STT_GNU_IFUNC) return reinterpret_cast<void*>(address);
  return reinterpret_cast<void* (*)()>(address)();
}

}  // namespace heapsnap::tracker
