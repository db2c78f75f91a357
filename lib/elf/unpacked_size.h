// What the compressed sections of a file claim to hold.
//
// libdw unpacks a section whole, into memory, when it first looks at it: 1 MB of .debug_info
// compressed by zlib can claim a gigabyte, by zstd anything.
#pragma once

#include <cstdint>

#include "elf/elf_image.h"

namespace heapsnap {

// Bytes of all compressed sections after unpacking, as their headers have it (SHF_COMPRESSED, and
// the older .zdebug_*); saturates.
uint64_t unpacked_size(const ElfImage& image);

// Debug information is read up to this; Chromium's is 3 GB, and not compressed.
inline constexpr uint64_t kMostUnpackedBytes = uint64_t{2} << 30;

}  // namespace heapsnap
