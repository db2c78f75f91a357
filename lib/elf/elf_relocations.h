// The dynamic relocations of an ELF file: RELA, REL, RELR and those of the PLT.
#pragma once

#include <vector>

#include "elf/elf_dynamic.h"
#include "elf/elf_headers.h"
#include "elf/elf_image.h"

namespace heapsnap {

// By PT_DYNAMIC; in a file without one (static, not PIE), those of its allocated sections. RELR
// entries come as the machine's R_*_RELATIVE.
std::vector<ElfRelocation> read_relocations(const ElfHeaders& headers, const ElfDynamic& dynamic);

}  // namespace heapsnap
