// Snapshots of any bytes with right checksums, which let a fuzzer into the sections.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "snapshot/format.h"

namespace heapsnap::test {

template <typename T>
T get_number(const std::vector<std::byte>& bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename T>
void set_number(std::vector<std::byte>& bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

// Gives every section that can be reached by its length a right checksum, and the file a footer
// whose index begins where the first index section does.
inline void repair(std::vector<std::byte>& bytes) {
  if (bytes.size() < format::kFileHeaderSize + format::kFooterSize) return;
  std::memcpy(bytes.data(), format::kFileMagic.data(), format::kFileMagic.size());
  const size_t footer = bytes.size() - format::kFooterSize;
  uint64_t index = footer;
  size_t at = format::kFileHeaderSize;
  while (at + format::kSectionHeaderSize + format::kChecksumSize <= footer) {
    const auto length = get_number<uint32_t>(bytes, at + 8);
    if (length < format::kSectionHeaderSize + format::kChecksumSize || length > footer - at) break;
    const auto kind = get_number<format::SectionKind>(bytes, at + 4);
    if (kind == format::SectionKind::kIndex && index == footer) index = at;
    const size_t end = at + length - format::kChecksumSize;
    set_number(bytes, end, static_cast<uint64_t>(XXH64(bytes.data() + at, end - at, 0)));
    at += length;
  }
  set_number(bytes, footer, index);
  set_number(bytes, footer + 8, footer - index);
  set_number(bytes, footer + 16, uint64_t{bytes.size()});
  set_number(bytes, footer + 24, static_cast<uint64_t>(XXH64(bytes.data() + footer, 24, 0)));
  std::memcpy(bytes.data() + footer + 32, format::kFooterMagic.data(), format::kFooterMagic.size());
}

}  // namespace heapsnap::test
