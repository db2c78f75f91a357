#include "elf/unpacked_size.h"

#include <elf.h>

#include <cstring>

#include "elf/elf_headers.h"

namespace heapsnap {

namespace {

// "ZLIB", and the size as a big-endian number.
uint64_t old_header_size(std::span<const std::byte> bytes) {
  constexpr size_t kMagic = 4;
  constexpr size_t kHeader = 12;
  if (bytes.size() < kHeader || std::memcmp(bytes.data(), "ZLIB", kMagic) != 0) return 0;
  uint64_t size = 0;
  for (const std::byte byte : bytes.subspan(kMagic, kHeader - kMagic)) {
    size = size << 8 | static_cast<uint64_t>(byte);
  }
  return size;
}

template <typename Header>
uint64_t header_size(std::span<const std::byte> bytes) {
  const auto header = load_record<Header>(bytes, 0);
  return header ? header->ch_size : 0;
}

}  // namespace

uint64_t unpacked_size(const ElfImage& image) {
  uint64_t sum = 0;
  for (const ElfSection& section : image.sections()) {
    const bool is_compressed = (section.flags & SHF_COMPRESSED) != 0;
    if (!is_compressed && !section.name.starts_with(".zdebug")) continue;
    const auto bytes = clipped(image.file_bytes(), section.file_offset, section.size);
    uint64_t size = 0;
    if (!is_compressed) {
      size = old_header_size(bytes);
    } else if (image.machine() == Machine::kI386) {
      size = header_size<Elf32_Chdr>(bytes);
    } else {
      size = header_size<Elf64_Chdr>(bytes);
    }
    if (__builtin_add_overflow(sum, size, &sum)) return UINT64_MAX;
  }
  return sum;
}

}  // namespace heapsnap
