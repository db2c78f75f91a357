#include "heap/discovery/module_bytes.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/byte_reader.h"

namespace heapsnap {

namespace {

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

uint64_t load_word(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return value;
}

// Whether the GNU hash table may list `name`; true also where there is no table to ask.
//
//   u32 buckets | u32 first symbol | u32 filter words | u32 filter shift
//   word filter[] | u32 bucket[] | u32 chain[]    a chain ends with a hash that has bit 0 set
//
// Hashes that all differ from the name's settle it without a look at any symbol.
bool gnu_hash_may_list(const ElfImage& image, std::string_view name) {
  const ElfSection* section = image.section(".gnu.hash");
  if (section == nullptr) return true;
  const auto bytes = image.bytes_at(section->address, section->size);
  const auto u32_at = [bytes](uint64_t at) -> std::optional<uint32_t> {
    if (!fits_within(at, 4, bytes.size())) return std::nullopt;
    return static_cast<uint32_t>(load_word(bytes.subspan(at, 4)));
  };
  uint32_t hash = 5381;
  for (const char letter : name) hash = hash * 33 + static_cast<unsigned char>(letter);
  constexpr uint64_t kHeader = 16;
  const auto buckets = u32_at(0);
  const auto first_symbol = u32_at(4);
  const auto filter_words = u32_at(8);
  if (!filter_words || *buckets == 0) return true;
  const uint64_t bucket_table = kHeader + uint64_t{*filter_words} * word_size(image.machine());
  const auto symbol = u32_at(bucket_table + uint64_t{hash % *buckets} * 4);
  if (!symbol) return true;
  if (*symbol < *first_symbol) return false;  // the bucket is empty
  uint64_t chain = bucket_table + uint64_t{*buckets} * 4 + uint64_t{*symbol - *first_symbol} * 4;
  for (auto link = u32_at(chain); link; link = u32_at(chain += 4)) {
    if ((*link | 1) == (hash | 1)) return true;
    if ((*link & 1) != 0) return false;
  }
  return true;
}

}  // namespace

std::vector<std::string_view> constant_bytes(const ElfImage& image) {
  std::vector<std::string_view> found;
  for (const ElfSegment& segment : image.segments()) {
    if (segment.type != PT_LOAD || (segment.flags & PF_W) != 0) continue;
    found.push_back(as_text(image.bytes_at(segment.address, segment.file_size)));
  }
  return found;
}

size_t find_text(std::string_view haystack, std::string_view needle) {
  if (haystack.size() < needle.size()) return std::string_view::npos;
  const void* found = memmem(haystack.data(), haystack.size(), needle.data(), needle.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - haystack.data());
}

bool has_constant(const ElfImage& image, std::string_view text) {
  const std::string needle = std::string(text) + '\0';
  for (const std::string_view constants : constant_bytes(image)) {
    if (find_text(constants, needle) != constants.npos) return true;
  }
  return false;
}

std::string_view symbol_names(const ElfImage& image) {
  const ElfSection* section = image.section(".dynstr");
  return section == nullptr ? std::string_view()
                            : as_text(image.bytes_at(section->address, section->size));
}

bool exports(const ElfImage& image, std::string_view name) {
  if (!gnu_hash_may_list(image, name)) return false;
  const auto& symbols = image.dynamic_symbols();
  return std::any_of(symbols.begin(), symbols.end(), [name](const ElfSymbol& symbol) {
    return symbol.is_defined && symbol.name == name;
  });
}

bool is_writable(const ElfImage& image, uint64_t address, uint64_t size) {
  const ElfSegment* segment = image.segment_of(address);
  return segment != nullptr && (segment->flags & PF_W) != 0 &&
         size <= segment->memory_size - (address - segment->address);
}

std::optional<uint64_t> file_word(const ElfImage& image, uint64_t address, unsigned word) {
  const auto bytes = image.bytes_at(address, word);
  if (bytes.size() != word) return std::nullopt;
  return load_word(bytes);
}

std::optional<uint64_t> dynamic_value(const ElfImage& image, int64_t tag) {
  const unsigned word = word_size(image.machine());
  for (const ElfSegment& segment : image.segments()) {
    if (segment.type != PT_DYNAMIC) continue;
    auto entries = image.bytes_at(segment.address, segment.file_size);
    for (; entries.size() >= 2 * word; entries = entries.subspan(2 * word)) {
      const uint64_t found = load_word(entries.first(word));
      if (found == DT_NULL) break;
      if (found == static_cast<uint64_t>(tag)) return load_word(entries.subspan(word, word));
    }
  }
  return std::nullopt;
}

}  // namespace heapsnap
