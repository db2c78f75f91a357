#include "runtime/ruby/ruby_id_table.h"

namespace heapsnap {

std::optional<RubyIdTable> RubyIdTable::at(PageCache& cache, uint64_t address) {
  constexpr uint64_t kMostKeys = 1 << 20;
  constexpr uint64_t kFirstPage = 4096;
  if (address < kFirstPage || address % 8 != 0) return std::nullopt;
  const auto counts = cache.word(Address(address), 8);
  const auto items = cache.word(Address(address) + kItems, 8);
  if (!counts || !items || *items < kFirstPage || *items % 8 != 0) return std::nullopt;
  const uint64_t capacity = *counts & UINT32_MAX;
  const uint64_t count = *counts >> 32;
  if (capacity == 0 || capacity > kMostKeys || count > capacity) return std::nullopt;
  return RubyIdTable(cache, Address(*items), capacity);
}

}  // namespace heapsnap
