// Where the code of malloc lies in a module.
//
// malloc.o's functions are one block of 23 to 27 KB in every libc since 2.27, with no other
// function inside:
//
//   [ _dl_tunable_set_* | malloc_printerr | int_mallinfo | ... | _int_malloc | ... | malloc_info ]
//
// A thread stopped with its instruction pointer in there may have an arena half changed, even if no
// lock is held: since 2.27, a process with one thread takes none. A range that is too large costs
// some single steps; one that is too small breaks the walk.
#pragma once

#include "base/address.h"
#include "elf/elf_image.h"

namespace heapsnap {

// The block, as addresses of the file. By the symbols of malloc.c in `symbols` (the module's
// separate debug file, or the module itself); else by the exported malloc_info, which ends it; else
// by the code that refers to malloc's error messages. Empty when nothing tells.
AddressRange find_malloc_text(const ElfImage& module, const ElfImage& symbols);

// The first executable segment.
AddressRange all_code(const ElfImage& module);

}  // namespace heapsnap
