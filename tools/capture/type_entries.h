// The file's table of types while it is made: an entry for each type that blocks turn out to have.
//
//   in the freeze   the first words of a block tell its type, or a vtable that has no RTTI
//   after it        symbols in files name those vtables, and each entry gets its name
//
// Other types are numbered behind these entries.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "elf/debug_file_search.h"
#include "heap/heap_model.h"
#include "references/block_map.h"
#include "references/block_types.h"
#include "references/file_memory.h"
#include "references/first_word_filter.h"
#include "references/loaded_modules.h"
#include "references/object_rows.h"
#include "references/reference_scan.h"
#include "target/target.h"

namespace heapsnap {

class TypeEntries {
 public:
  // From now on to end_reading(), `target` and `map` are read. `modules` outlives this. `files`: of
  // the types() of this.
  void begin_reading(Target& target, const BlockMap& map, const LoadedModules& modules,
                     const HeapModel& heap, const FileMemory& files);
  void end_reading() { vtable_finder_.reset(); }

  BlockTypeList& types() { return types_; }
  // Of a type of that list; 0 of the unknown one.
  TypeNumber entry_of(TypeNumber type);

  // Blocks whose types are known otherwise than by what is in them, with their entries.
  const std::vector<std::pair<BlockNumber, TypeNumber>>& known_blocks() const {
    return known_blocks_;
  }
  // Of the words that entry_of_block() knows something by.
  const FirstWordFilter& first_words() const { return first_words_; }
  // 0: not known by its first words.
  TypeNumber entry_of_block(const FirstWord& first);
  // What is known so far of an entry.
  const BlockType& type_of(TypeNumber entry) const { return types_.all()[entries_[entry].type]; }

  // Of all entries. Reads files.
  std::vector<BlockType> names(const DebugFileSearch& debug_files);
  // Of each entry, that of what it is an array of, 0 where it is none; and where in the array the
  // first element is, in bytes.
  std::vector<TypeNumber> elements() const;
  std::vector<uint8_t> elements_at() const;

 private:
  // Of a type that is known, or of a vtable that only a symbol names.
  struct Entry {
    TypeNumber type = 0;
    uint64_t vtable = 0;
    TypeNumber array_of = 0;
    uint8_t elements_at = 0;
  };

  void find_known_blocks(const HeapModel& heap, const FileMemory& files);
  TypeNumber entry_of_vtable(uint64_t word) {
    return first_words_.may_be_vtable(word) ? entry_in_modules(word) : 0;
  }
  TypeNumber entry_in_modules(uint64_t word);
  TypeNumber entry_of_array(TypeNumber elements, unsigned elements_at);
  TypeNumber entry_of_objects(const FirstWord& first);

  Target* target_ = nullptr;
  const BlockMap* map_ = nullptr;
  const LoadedModules* modules_ = nullptr;
  BlockTypeList types_;
  std::vector<Entry> entries_ = {Entry{}};
  std::unordered_map<TypeNumber, TypeNumber> entry_of_type_;
  // By entry of its elements, and where they begin.
  std::map<std::pair<TypeNumber, unsigned>, TypeNumber> entry_of_array_;

  std::optional<VtableFinder> vtable_finder_;
  VtableTypes vtables_;
  std::vector<AddressRange> vtable_ranges_;
  FirstWordFilter first_words_;  // of these ranges
  std::unordered_map<uint64_t, TypeNumber> entry_of_word_;
  BlockMap::Hint usable_hint_;
  std::vector<std::pair<BlockNumber, TypeNumber>> known_blocks_;
};

}  // namespace heapsnap
