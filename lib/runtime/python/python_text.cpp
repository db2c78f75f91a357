#include "runtime/python/python_text.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/python/python_objects.h"
#include "tracking/unicode_text.h"

namespace heapsnap {

std::optional<std::string> python_text(PageCache& cache, const PythonLayout& layout, Address at,
                                       size_t most) {
  constexpr uint64_t kAlignment = 8;
  std::vector<std::byte> bytes(layout.text_ascii_size);
  if (at.is_null() || !at.is_aligned(kAlignment) || cache.read(at, bytes) != bytes.size()) {
    return std::nullopt;
  }
  // unicodeobject.h: two bits, of how many bytes each character is, compact, ascii.
  const uint64_t state = python_word(bytes, layout.text_state);
  const uint64_t length = python_word(bytes, layout.text_length);
  const size_t width = state >> 2 & 7;
  const bool is_compact = (state >> 5 & 1) != 0;
  const bool is_ascii = (state >> 6 & 1) != 0;
  const bool is_width = width == 1 || (!is_ascii && (width == 2 || width == 4));
  if (!is_compact || !is_width || length == 0 || length > most) return std::nullopt;
  bytes.resize(length * width);
  const Address first = at + (is_ascii ? layout.text_ascii_size : layout.text_compact_size);
  if (cache.read(first, bytes) != bytes.size()) return std::nullopt;
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += width) {
    uint32_t character = 0;
    std::memcpy(&character, bytes.data() + i, width);  // little-endian, as all that are read here
    if ((is_ascii && character > 0x7f) || !is_scalar_value(character)) return std::nullopt;
    append_utf8(character, text);
  }
  return text;
}

bool is_python_name(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char one) {
    const auto byte = static_cast<unsigned char>(one);
    return byte > 0x20 && byte != 0x7f;
  });
}

std::optional<std::string> python_name(PageCache& cache, const PythonLayout& layout, Address at,
                                       size_t most) {
  auto text = python_text(cache, layout, at, most);
  if (text && !is_python_name(*text)) return std::nullopt;
  return text;
}

}  // namespace heapsnap
