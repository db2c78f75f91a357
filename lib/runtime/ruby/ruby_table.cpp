#include "runtime/ruby/ruby_table.h"

#include "heap/struct_bytes.h"
#include "runtime/ruby/ruby_value.h"

namespace heapsnap {

uint64_t ruby_table_bytes(std::span<const std::byte> table) {
  constexpr uint64_t kFewest = 2;  // log2: MINIMAL_POWER2
  constexpr uint64_t kLargest = 40;
  const StructBytes words(table, 8);
  const auto byte_at = [&](uint64_t offset) { return words.int_at(offset) & 0xff; };
  const uint64_t entry_power = byte_at(0);
  const uint64_t bin_power = byte_at(1);
  const uint64_t bin_width = byte_at(2);
  if (entry_power < kFewest || entry_power > kLargest || bin_power > kLargest || bin_width > 3) {
    return kRubyTableHeader;
  }
  uint64_t bytes = kRubyTableHeader;
  if (words.word_at(RubyTable::kEntries) != 0) bytes += RubyTable::kEntry << entry_power;
  // Small tables have none.
  if (words.word_at(RubyTable::kBins) != 0)
    bytes += ((uint64_t{1} << bin_power << bin_width) + 7) / 8 * 8;
  return bytes;
}

std::optional<RubyTable> RubyTable::at(PageCache& cache, uint64_t address) {
  if (!RubyValue::is_object(address)) return std::nullopt;
  RubyTable table;
  table.place = Address(address);
  if (cache.read(table.place, table.header) != table.header.size()) return std::nullopt;
  if (ruby_table_bytes(table.header) <= kRubyTableHeader) return std::nullopt;
  const StructBytes words(table.header, 8);
  table.type = Address(words.word_at(kType));
  table.entries = Address(words.word_at(kEntries));
  table.first = words.word_at(kFirst);
  table.bound = words.word_at(kBound);
  table.count = words.word_at(kCount);
  const uint64_t room = uint64_t{1} << (words.int_at(0) & 0xff);
  const bool fits = RubyValue::is_object(table.entries.value()) && table.first < table.bound &&
                    table.bound <= room && table.count != 0;
  return fits ? std::optional(table) : std::nullopt;
}

std::vector<RubyTable::Entry> RubyTable::read(MemoryReader& memory, uint64_t from,
                                              uint64_t to) const {
  std::vector<std::byte> bytes((to - from) * kEntry);
  bytes.resize(memory.read(entries + from * kEntry, bytes) / kEntry * kEntry);
  const StructBytes words(bytes, 8);
  std::vector<Entry> found;
  found.reserve(bytes.size() / kEntry);
  for (uint64_t at = 0; at < bytes.size(); at += kEntry) {
    found.push_back({words.word_at(at), words.word_at(at + 8), words.word_at(at + 16)});
  }
  return found;
}

}  // namespace heapsnap
