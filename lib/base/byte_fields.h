// Values in the bytes of structures that a kernel or a C library laid out.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace heapsnap {

// The caller has seen that sizeof(T) bytes lie from `offset` on.
template <typename T>
void put_field(std::vector<std::byte>& bytes, size_t offset, const T& value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

template <typename T>
T get_field(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace heapsnap
