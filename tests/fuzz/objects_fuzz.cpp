// Blocks of any words, taken for rows of objects: what is found agrees with the words.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "references/object_rows.h"

namespace {

using namespace heapsnap;

void require(bool condition) {
  if (!condition) __builtin_trap();
}

uint64_t word_at(std::span<const std::byte> bytes, size_t number, unsigned word) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + number * word, word);
  return value;
}

}  // namespace

// The first byte: the size of a word, and whether more of the block is known than its bytes; the
// second: by how much its size differs from that of the bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const unsigned word = data[0] % 2 == 0 ? 8 : 4;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(2);
  const uint64_t usable = data[0] % 4 < 2 ? bytes.size() + data[1]
                                          : bytes.size() - std::min<size_t>(bytes.size(), data[1]);
  const size_t words = std::min<uint64_t>(bytes.size(), usable) / word;
  if (is_row_of_objects(bytes, usable, word)) {
    const uint64_t vptr = word_at(bytes, 0, word);
    size_t same = 0;
    for (size_t i = 0; i < words; ++i) same += word_at(bytes, i, word) == vptr ? 1 : 0;
    require(same >= 2);
  }
  if (bytes.size() < word) return 0;
  const auto vptr = counted_vptr(word_at(bytes, 0, word), bytes, word);
  if (vptr) require(word_at(bytes, 1, word) == *vptr && word_at(bytes, 0, word) >= 2);
  if (vptr && is_counted_row_of_objects(bytes, usable, word)) {
    require(word_at(bytes, 0, word) * word < usable);
  }
  return 0;
}
