// Types of blocks by what lies in them: the vtable that an object begins with, and structures of
// the C library.
//
//   block ──► | vptr | ...          vtable:  | offset to top | type_info | functions ...
//                                                  = 0         ^ says which class (class_names.h)
//
// A word is taken for a vptr when all of that holds: it points into a module, the offset to top is
// 0, and the type_info's own class is one that C++ has for classes. Code that was built without
// RTTI has a null there: then the symbol of the vtable decides.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/address.h"
#include "elf/debug_file_search.h"
#include "heap/heap_model.h"
#include "references/block_type.h"
#include "references/class_names.h"
#include "references/loaded_modules.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

// Types, each once; number 0 is the unknown type.
class BlockTypeList {
 public:
  // One that is there is exact only if all that were added were.
  TypeNumber add(BlockType type);
  const std::vector<BlockType>& all() const { return types_; }

 private:
  std::vector<BlockType> types_ = {BlockType{}};
  // By name, module, and what it is to an interpreter.
  std::map<std::tuple<std::string, std::string, std::string, std::string>, TypeNumber> number_of_;
};

// Where vtables may lie, ascending and disjoint: what of modules is mapped and is neither code nor
// .bss. The first word of an object points into one of them.
std::vector<AddressRange> vtable_ranges(const LoadedModules& modules, const AddressSpace& space);

struct VtableType {
  uint64_t first_word = 0;
  TypeNumber type = 0;
  bool operator==(const VtableType&) const = default;
};

struct VtableTypes {
  std::vector<VtableType> known;
  // Those that lack RTTI: name_by_symbols() finds out.
  std::vector<uint64_t> without_rtti;
};

// Looks at first words of blocks one by one. Reads the target's memory, and keeps what it has read.
class VtableFinder {
 public:
  // All must outlive this.
  VtableFinder(Target& target, const LoadedModules& modules, BlockTypeList& types);

  struct Answer {
    TypeNumber type = 0;
    bool lacks_rtti = false;  // a vtable as far as memory says, without RTTI
  };
  Answer look_at(uint64_t first_word);

 private:
  PageCache cache_;
  ClassNames names_;
  const LoadedModules& modules_;
  BlockTypeList& types_;
};

// The same for many, each given once; those that tell nothing are left out.
VtableTypes find_vtable_types(Target& target, const LoadedModules& modules,
                              std::span<const uint64_t> first_words, BlockTypeList& types);
// Moves those of `without_rtti` to `known` that have a symbol _ZTV. Reads files, not the target.
void name_by_symbols(VtableTypes& found, const LoadedModules& modules,
                     const DebugFileSearch& debug_files, BlockTypeList& types);

// A block whose type a structure in it may tell.
struct BlockWord {
  Address block;
  uint64_t usable = 0;
  uint64_t first_word = 0;
};
// Whether a block that begins with this word is worth a look: it may be a FILE (_IO_MAGIC).
constexpr bool may_begin_structure(uint64_t first_word) {
  return (first_word & 0xffff0000U) == 0xfbad0000U;
}
// Types of `blocks`, as many; 0 where none is recognized. Reads the target's memory.
std::vector<TypeNumber> find_structure_types(Target& target, const LoadedModules& modules,
                                             std::span<const BlockWord> blocks,
                                             BlockTypeList& types);

// Blocks that the C library has for each thread: tcache, dtv, thread-local storage of modules that
// were loaded later. Ascending. What leads to them is the thread itself, so they are types for sure
// when they are blocks at all: the first thread's were not all allocated by malloc.
struct KnownBlock {
  Address block;
  TypeNumber type = 0;
  bool operator==(const KnownBlock&) const = default;
};
std::vector<KnownBlock> find_thread_blocks(Target& target, const LoadedModules& modules,
                                           const HeapModel& heap, BlockTypeList& types);

}  // namespace heapsnap
