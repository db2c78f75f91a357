// .gnu_debugdata ("MiniDebugInfo"): an ELF file with the function symbols only, compressed by xz
// and kept inside the stripped file.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace heapsnap {

// The embedded ELF file; empty when `compressed` is damaged or would be larger than 64 MiB.
std::vector<std::byte> decompress_mini_debug_info(std::span<const std::byte> compressed);

}  // namespace heapsnap
