// Names the functions of one ELF file: by its DWARF, else by its symbol tables, and if it was
// stripped of both, by where the function starts:
//
//   DWARF         parse(int)  parse.cpp:42
//   symbol        parse(int)            the address lies within the symbol's size, or the unwind
//                                       entry that covers it starts at the symbol
//   unwind entry  git+0x1a2b0()         the function that starts there
//
// A function never gets the name of another one that merely precedes it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "elf/elf_image.h"
#include "elf/unwind_entries.h"
#include "tracking/source_lines.h"

namespace heapsnap {

// Whether a signal handler returns to that address of the file (the code calls rt_sigreturn): then
// the frame outside of it was interrupted, and its address is no return address.
bool is_signal_return(const ElfImage& module, uint64_t address);

class ModuleSymbols {
 public:
  // `debug_file`: the separate one, if any. `label`: the module's label in names that are made up
  // (name_of_start()).
  ModuleSymbols(ElfImage module, std::optional<ElfImage> debug_file, std::string label);

  // The frames of an address of the file, innermost first. Empty when nothing is known of it.
  std::vector<CodeFrame> frames_at(uint64_t address);
  // The function whose code that is, without what is inlined there; empty when it is not known. By
  // its symbol where that says it all: much faster, as no debug information is unpacked.
  std::string function_at(uint64_t address);
  // Where that function's code begins, or the part of it that is on its own; 0: not known.
  uint64_t begin_of_function(uint64_t address);

  // Whether the code at that address starts a process or a thread, so that nothing called it: the
  // entry point of a program or of ld.so, or clone(2) in the C library. Some of it lacks the unwind
  // information that would say so.
  bool is_outermost(uint64_t address);

 private:
  struct Function {
    uint64_t begin = 0;
    uint64_t end = 0;  // as the begin where the size is not known
    std::string_view name;
    bool is_listed_in_full = false;  // of a table of all functions, not of the exported ones
    bool is_label = false;           // has no type: any place in assembler code
    bool is_local = false;           // of one object file
  };
  using Functions = std::vector<Function>;

  void add_functions(const std::vector<ElfSymbol>& symbols, bool is_full);
  bool is_code_at(uint64_t address) const;
  const UnwindEntries& unwind_entries();
  SourceLines* lines();
  Functions::const_iterator first_behind(uint64_t address) const;
  const Function* sized_function_at(uint64_t address) const;
  const Function* function_from(uint64_t begin) const;
  const Function* assembler_function_at(uint64_t address);
  bool is_entry_code(uint64_t address);
  void name_without_lines(uint64_t address, CodeFrame& frame);

  ElfImage module_;
  std::optional<ElfImage> debug_file_;
  std::string label_;
  std::optional<UnwindEntries> unwind_entries_;  // when first asked for
  std::unique_ptr<SourceLines> lines_;           // when first asked for, if there are some
  bool has_opened_lines_ = false;
  Functions functions_;  // ascending
};

}  // namespace heapsnap
