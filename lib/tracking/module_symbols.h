// The symbols of one ELF file: what its DWARF says of an address, and where there is none, its
// symbol tables.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "elf/elf_image.h"
#include "tracking/source_lines.h"

namespace heapsnap {

// Whether a signal handler returns to that address of the file (the code calls rt_sigreturn): then
// the frame outside of it was interrupted, and its address is no return address.
bool is_signal_return(const ElfImage& module, uint64_t address);

class ModuleSymbols {
 public:
  // `debug_file`: the separate one, where there is one.
  ModuleSymbols(ElfImage module, std::optional<ElfImage> debug_file);

  // The frames of an address of the file, innermost first. Empty when nothing is known of it.
  std::vector<CodeFrame> frames_at(uint64_t address);

 private:
  struct Function {
    uint64_t begin = 0;
    uint64_t end = 0;  // as the begin where the size is not known
    std::string_view name;
  };
  void add_functions(const std::vector<ElfSymbol>& symbols);
  const Function* function_at(uint64_t address) const;

  ElfImage module_;
  std::optional<ElfImage> debug_file_;
  std::unique_ptr<SourceLines> lines_;
  std::vector<Function> functions_;  // ascending
};

}  // namespace heapsnap
