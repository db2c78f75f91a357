// Allocators that are not glibc's, by the names of files and symbols.
#pragma once

#include <string>

#include "elf/elf_image.h"

namespace heapsnap {

// "jemalloc", "musl", "Go" or another of the table in foreign_allocator.cpp when `image`, mapped
// from `path`, holds that allocator; else empty. Symbols that a program only imports do not count.
// A stripped program with an allocator linked in is known by the allocator's texts, where it
// answers malloc.
std::string foreign_allocator_in(const ElfImage& image, const std::string& path);

// A program that no loader gives a C library.
bool is_static_executable(const ElfImage& image);

}  // namespace heapsnap
