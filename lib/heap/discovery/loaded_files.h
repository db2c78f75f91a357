// The ELF files of a target and the places where it has them.
#pragma once

#include <string>
#include <vector>

#include "elf/elf_image.h"
#include "target/address_space.h"

namespace heapsnap {

struct LoadedFile {
  std::string path;
  std::vector<Mapping> mappings;  // all of this file, by address; there is at least one
};

// The files of which code is mapped, each once, by their first address.
std::vector<LoadedFile> files_with_code(const AddressSpace& space);

// What to add to an address of the file to get one in the target: one value for each time that the
// file is loaded (dlmopen loads a file again).
std::vector<Address> load_biases(const ElfImage& image, const LoadedFile& file);

// The .data and .bss of a module: those parts of its writable segments that are writable now.
std::vector<AddressRange> writable_ranges(const ElfImage& image, Address load_bias,
                                          const AddressSpace& space);

// Where variables of shared objects may lie, without any file: private writable mappings of files,
// and the anonymous ones right behind them (.bss).
std::vector<AddressRange> all_module_data(const AddressSpace& space);

}  // namespace heapsnap
