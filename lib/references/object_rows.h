// Several objects of one class in a row, in one block: a C++ array, or the storage of a vector.
//
//   std::vector<Session>   | vptr ... | vptr ... | vptr ... | unused |
//   new Session[3]         | 3 | vptr ... | vptr ... | vptr ... |
//
// A class cannot contain itself, so its vptr comes once in an object. Memory that the object has
// not written to may still have it: what is taken for a row has equal distances, and three of them
// or no room for a third.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace heapsnap {

// `bytes`: from the first byte of a block on, as many as are known; `usable`: of the block; `word`:
// bytes of a word.
//
// Whether there are more objects of the class whose vptr the block begins with.
bool is_row_of_objects(std::span<const std::byte> bytes, uint64_t usable, unsigned word);

constexpr bool may_count_objects(uint64_t first_word) {
  return first_word >= 2 && first_word <= INT32_MAX;
}
// The second word of a block whose first, `first`, may count objects.
inline std::optional<uint64_t> counted_vptr(uint64_t first, std::span<const std::byte> bytes,
                                            unsigned word) {
  if (!may_count_objects(first) || bytes.size() / word < 3) return std::nullopt;
  uint64_t second = 0;
  std::memcpy(&second, bytes.data() + word, word);
  return second;
}
// Whether the block begins with a number, and that many objects follow and fill it.
bool is_counted_row_of_objects(std::span<const std::byte> bytes, uint64_t usable, unsigned word);

}  // namespace heapsnap
