// The ELF files that a target has loaded, each at its place, and what is known of each without its
// symbols: segments, thread-local storage.
//
//   file:     | headers, .rodata | .text | RELRO | .data |(.bss)
//   memory:   ^ bias + p_vaddr   r-xp    r--p    rw-p
//
// Finding them opens files but reads no symbols. Nothing of it needs the target any longer
// afterwards, and what was found of a running process serves for its frozen self.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/address.h"
#include "elf/elf_image.h"
#include "target/target.h"

namespace heapsnap {

// An ELF file as far as it could be had, and what it was read from.
struct ModuleFile {
  std::string path;  // as the mapping has it
  uint64_t inode = 0;
  bool is_from_memory = false;    // only what memory shows of its first segment
  std::vector<std::byte> memory;  // that; the image's bytes lie in here
  ElfImage image;
};

struct LoadedModule {
  Address bias;        // add to a virtual address of the file
  AddressRange range;  // from the first to the last byte of its segments
  // The file; where it cannot be opened, its program headers and, mostly, dynamic symbols as they
  // lie in memory. Never null.
  std::shared_ptr<const ModuleFile> file;

  const std::string& path() const { return file->path; }
  const ElfImage& image() const { return file->image; }
  uint64_t file_address(Address address) const { return address.value() - bias.value(); }
};

class LoadedModules {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  LoadedModules() = default;
  // Opens the files behind the target's mappings. `known`: what was found of the same process
  // before; files of it are not opened again.
  explicit LoadedModules(Target& target, const LoadedModules* known = nullptr);

  const std::vector<LoadedModule>& all() const { return modules_; }  // ascending by range
  const LoadedModule& operator[](uint32_t number) const { return modules_[number]; }
  // Number of the module that has a segment at `address`, or kNone.
  uint32_t find(Address address) const;
  // Where those segments of a module lie whose flags (PF_*) are `flags` in the bits of `mask`.
  std::vector<AddressRange> segments(uint32_t number, uint32_t mask, uint32_t flags) const;

 private:
  struct Part {
    AddressRange range;
    uint32_t module = 0;
  };

  std::vector<LoadedModule> modules_;
  std::vector<Part> parts_;  // segments, ascending
};

// [bias + address, + size), cut off at the end of the address space.
AddressRange range_in_memory(Address bias, uint64_t address, uint64_t size);

}  // namespace heapsnap
