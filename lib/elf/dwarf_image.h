// The debug information of an ELF file, opened by libdw in memory of our own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "elf/dwarf_entry.h"
#include "elf/elf_image.h"

namespace heapsnap {

class DwarfImage {
 public:
  // Null when it has no DWARF, or more than there is memory for (kMostUnpackedBytes). Of the debug
  // sections only those that `sections` names ("info"). With the unit of the code at `address`
  // only, where one is given: null when that is not known.
  static std::unique_ptr<DwarfImage> open(const ElfImage& file,
                                          std::span<const std::string_view> sections,
                                          std::optional<uint64_t> address = std::nullopt);
  // The file that .gnu_debugaltlink names, a path, relative to the folder of the debug file, and
  // the build-id. Null when there is none.
  static std::unique_ptr<DwarfImage> open_alternate(const ElfImage& debug_file,
                                                    std::span<const std::string_view> sections);
  ~DwarfImage();

  // What is in the alternate file is found there; it outlives this.
  void set_alternate(DwarfImage& alternate);

  // Calls `visit` with the first entry of each unit until it gives false.
  void each_unit(const std::function<bool(const DwarfEntry&)>& visit) const;

 private:
  struct State;
  explicit DwarfImage(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Whether a file has debug information at all.
bool has_debug_information(const ElfImage& file);
// The same, and it may describe types: false where that is ruled out without a look at its units,
// as of what is compiled with -g1.
bool may_describe_types(const ElfImage& file);

}  // namespace heapsnap
