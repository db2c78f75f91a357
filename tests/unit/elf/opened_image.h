// An ELF file of this system as an image.
#pragma once

#include <string>

#include "base/mapped_file.h"
#include "elf/elf_image.h"

namespace heapsnap::test {

inline ElfImage open_image(const std::string& path) {
  return ElfImage::from_file(MappedFile::open(path), path);
}

}  // namespace heapsnap::test
