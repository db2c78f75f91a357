// What the C library keeps for open files, and which words of it are no references: what a buffer
// holds that the program has read already, or that is written, and fields that fopen(3) leaves as
// they were, which may hold any address of freed memory that is used again.
//
//   _IO_list_all ──► FILE | magic | read, write | buffer | its end | ... | next | padding | vtable
//                         | wide characters: | pointers | states: unset |
//
// Layout: struct _IO_FILE and _IO_wide_data of glibc's libio, the same since 2.1.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "references/block_types.h"
#include "references/loaded_modules.h"
#include "target/target.h"

namespace heapsnap {

// The type of buffers.
inline constexpr std::string_view kFileBuffer = "FILE buffer";

struct FileMemory {
  std::vector<KnownBlock> buffers;  // where they are blocks
  std::vector<AddressRange> unset;  // words, in blocks or elsewhere
};

struct FileList {
  Address first;       // of the pointer to the first FILE
  std::string module;  // path of the library
};
std::vector<FileList> file_lists(const LoadedModules& modules);

// Of all FILEs that are open, 65,536 at most. A list that is damaged, or that leads in a circle,
// ends there. Nothing is known of a buffer that setvbuf(3) was given.
FileMemory find_file_memory(Target& target, std::span<const FileList> lists, BlockTypeList& types);

}  // namespace heapsnap
