#include "runtime/python/python_table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "runtime/python/python_objects.h"

namespace heapsnap {

std::optional<PythonTable> python_table(PageCache& cache, const PythonLayout& layout,
                                        Address keys) {
  constexpr uint64_t kMostItems = 1ULL << 40;
  constexpr uint64_t kSmallEntry = 16;  // of keys that are all str: no hash
  constexpr uint64_t kEntry = 24;
  constexpr unsigned kMostBits = 40;
  std::array<std::byte, 64> bytes;
  const auto header = std::span(bytes).first(std::min<size_t>(bytes.size(), layout.keys_header));
  if (cache.read(keys, header) != header.size()) return std::nullopt;
  const auto byte_at = [&](uint32_t offset) { return static_cast<unsigned>(header[offset]); };
  PythonTable table;
  table.entry_bytes = kEntry;
  uint64_t size = 0;
  uint64_t index_bytes = 0;
  if (layout.keys_size != 0) {
    size = python_word(header, layout.keys_size);
    if (size > kMostItems) return std::nullopt;
    index_bytes = size * (size <= UINT8_MAX    ? 1
                          : size <= UINT16_MAX ? 2
                          : size <= UINT32_MAX ? 4
                                               : 8);
  } else {
    const unsigned size_bits = byte_at(layout.keys_log2_size);
    const unsigned index_bits = byte_at(layout.keys_log2_index_bytes);
    if (size_bits > kMostBits || index_bits > kMostBits) return std::nullopt;
    size = uint64_t{1} << size_bits;
    index_bytes = uint64_t{1} << index_bits;
    if (byte_at(layout.keys_kind) != 0) table.entry_bytes = kSmallEntry;
  }
  table.most = size * 2 / 3;
  table.first_entry = keys + layout.keys_header + index_bytes;
  table.entries = std::min(python_word(header, layout.keys_entries), table.most);
  table.usable = python_word(header, layout.keys_usable);
  table.references = python_word(header, layout.keys_references);
  table.bytes = layout.keys_header + index_bytes + table.most * table.entry_bytes;
  return table;
}

}  // namespace heapsnap
