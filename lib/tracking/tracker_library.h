// The tracker among the mappings of a process: its library, its tables, and the word that leads
// from one to the other. All searches for the tracker use this.
//
//   7f12..000 r--p  /memfd:libheapsnap_tracker.so (deleted)   first mapping of the library
//   7f12..000 rw-p    directory word at heapsnap_tracker_directory ──┐
//   7f34..000 rw-p  [anon:heapsnap_directory]                     <──┘
#pragma once

#include <optional>
#include <string_view>

#include "base/address.h"
#include "elf/elf_image.h"
#include "target/address_space.h"

namespace heapsnap {

// Of a mapping's or a module's path. inject loads the library from memory, run and LD_PRELOAD from
// a file.
bool is_tracker_library(std::string_view path);
bool is_injected_tracker(std::string_view path);
// Whether the kernel names a mapping as the tracker's Directory, or as that or another table (it
// can from 5.17 on).
bool is_directory_mapping(std::string_view path);
bool is_tracker_table(std::string_view path);

// The mapping of the library's ELF header; null where no tracker is loaded.
const Mapping* find_tracker_library(const AddressSpace& space);
// Where `library`, whose header is mapped at `header`, keeps the address of its Directory. None
// where the image has no such symbol.
std::optional<Address> directory_word(const ElfImage& library, const Mapping& header);

}  // namespace heapsnap
