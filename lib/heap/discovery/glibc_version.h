// Which glibc a module is.
#pragma once

#include <string>

#include "elf/elf_image.h"
#include "heap/heap_model.h"

namespace heapsnap {

// From libc's banner ("GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36."), else
// from the file name (libc-2.31.so), else the newest symbol version that it defines or needs
// (GLIBC_2.34), which is a lower bound. 0.0 when nothing tells.
struct GlibcVersionGuess {
  GlibcVersion version;
  bool is_exact = false;
};
GlibcVersionGuess guess_glibc_version(const ElfImage& image, const std::string& path);

// The version in the first banner of `text`, which need not be text at all; 0.0 without one.
GlibcVersion version_in_banner(std::string_view text);

}  // namespace heapsnap
