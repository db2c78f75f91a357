// The symbol tables of an ELF file.
#pragma once

#include <vector>

#include "elf/elf_dynamic.h"
#include "elf/elf_headers.h"
#include "elf/elf_image.h"

namespace heapsnap {

// Entries keep their index in the file (relocations name symbols by it); an entry whose name lies
// outside the string table has an empty name. Names are views of headers.bytes.

// .symtab; empty when it has been stripped.
std::vector<ElfSymbol> read_static_symbols(const ElfHeaders& headers);
// .dynsym by its section, or by DT_SYMTAB where there are no section headers.
std::vector<ElfSymbol> read_dynamic_symbols(const ElfHeaders& headers, const ElfDynamic& dynamic);

}  // namespace heapsnap
