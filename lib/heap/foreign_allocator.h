// Allocators that are not glibc's, by the names of files and symbols.
#pragma once

#include <string>

#include "elf/elf_image.h"

namespace heapsnap {

// "jemalloc", "tcmalloc", "mimalloc", "musl" or "Go" when `image`, mapped from `path`, holds that
// allocator; else empty. Symbols that a program only imports do not count. A stripped program that
// has an allocator linked in statically shows nothing.
std::string foreign_allocator_in(const ElfImage& image, const std::string& path);

}  // namespace heapsnap
