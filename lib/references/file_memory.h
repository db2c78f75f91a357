// What the C library keeps for open files, and which words of it are no references: characters that
// a FILE has read or is to write, and fields that fopen(3) leaves as they were, which may hold any
// address of freed memory that is used again.
//
//   _IO_list_all ──► FILE | magic | ... | buffer | its end | ... | next | ... | padding | vtable |
//                         | wide characters: | pointers | states: unset |
//
// Layout: struct _IO_FILE and _IO_wide_data of glibc's libio, the same since 2.1.
#pragma once

#include <vector>

#include "base/address.h"
#include "references/block_types.h"
#include "references/loaded_modules.h"
#include "target/target.h"

namespace heapsnap {

struct FileMemory {
  std::vector<KnownBlock> buffers;  // where they are blocks
  std::vector<AddressRange> unset;  // words, in blocks or elsewhere
};

// Of all FILEs that are open. A list that is damaged ends there.
FileMemory find_file_memory(Target& target, const LoadedModules& modules, BlockTypeList& types);

}  // namespace heapsnap
