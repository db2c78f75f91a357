// The variables of one ELF file, by its symbol tables: which one an address belongs to.
//
//   .data   | counter | table ............ | (no symbol) | name |
//                       ^ table + 0x18       ^ of no variable
//
// A variable never gets the name of another one that merely precedes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "elf/elf_image.h"

namespace heapsnap {

struct NamedVariable {
  std::string_view symbol;  // mangled; a view of the file
  uint64_t begin = 0;       // address in the file; of a thread-local one, in PT_TLS
  uint64_t size = 0;
  // Source file, where another one of the module has a variable of that name; a view, too.
  std::string_view file = {};
};

class VariableNames {
 public:
  // Both outlive this. `debug_file`: the separate one, or nullptr.
  VariableNames(const ElfImage& module, const ElfImage* debug_file);

  // The innermost variable whose extent holds the address.
  std::optional<NamedVariable> variable_at(uint64_t address) const {
    return find(variables_, address);
  }
  std::optional<NamedVariable> thread_local_at(uint64_t offset) const {
    return find(thread_locals_, offset);
  }

 private:
  struct Extent {
    uint64_t begin = 0;
    uint64_t end = 0;
    std::string_view name;
    std::string_view file;  // of a local one, until all are known; then as in NamedVariable
    bool is_local = false;  // of one object file
  };
  using Extents = std::vector<Extent>;

  void add(const std::vector<ElfSymbol>& symbols, const ElfImage& module);
  static void sort(Extents& extents);
  static void keep_files_of_same_names(Extents& extents);
  static std::optional<NamedVariable> find(const Extents& extents, uint64_t address);

  Extents variables_;      // ascending, of outer ones before inner ones
  Extents thread_locals_;  // the same
};

}  // namespace heapsnap
