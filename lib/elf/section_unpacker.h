// The bytes of a section from its begin on, unpacked as far as they are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "elf/elf_image.h"

namespace heapsnap {

class SectionUnpacker {
 public:
  // The file must outlive it. A section packed otherwise than by zlib has no bytes.
  SectionUnpacker(const ElfImage& file, const ElfSection& section);
  ~SectionUnpacker();

  // False where fewer bytes are left, or damaged ones.
  bool read(std::span<std::byte> room);
  bool skip(uint64_t count);
  // That are left, as the section's header has it.
  uint64_t left() const { return left_; }

 private:
  struct Inflation;
  std::span<const std::byte> packed_;
  uint64_t left_ = 0;
  std::unique_ptr<Inflation> inflation_;  // null: as they lie in the file
};

}  // namespace heapsnap
