// A struct of the target, read at once, with members taken by offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "base/byte_reader.h"
#include "target/memory_reader.h"

namespace heapsnap {

// One word of the target, zero-extended.
inline std::optional<uint64_t> read_word(MemoryReader& memory, Address at, unsigned word) {
  uint64_t value = 0;
  const auto bytes = std::as_writable_bytes(std::span(&value, 1)).first(word);
  if (!memory.read_exact(at, bytes)) return std::nullopt;
  return value;
}

class StructBytes {
 public:
  // Views `bytes`, which outlive this; members outside of them are 0.
  StructBytes(std::span<const std::byte> bytes, unsigned word) : bytes_(bytes), word_(word) {}

  uint64_t word_at(uint64_t offset) const { return load(offset, word_); }
  uint32_t int_at(uint64_t offset) const { return static_cast<uint32_t>(load(offset, 4)); }
  size_t size() const { return bytes_.size(); }
  // A member of 1 to 8 bytes.
  bool is_zero_at(uint64_t offset, unsigned size) const { return load(offset, size) == 0; }
  bool is_all_zero() const {
    for (const std::byte byte : bytes_) {
      if (byte != std::byte{0}) return false;
    }
    return true;
  }

 private:
  uint64_t load(uint64_t offset, unsigned size) const {
    uint64_t value = 0;
    if (fits_within(offset, size, bytes_.size())) {
      std::memcpy(&value, bytes_.data() + offset, size);
    }
    return value;
  }

  std::span<const std::byte> bytes_;
  unsigned word_;
};

}  // namespace heapsnap
