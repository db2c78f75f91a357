// A table of Ruby's from the number of a name to a pointer: rb_id_table, the same from 2.7 to 3.4.
//
//   | capacity, count, used | ... | items |
//                                    │
//                                    ▼
//                                    | key | value | key | value | ...      key 0: free
#pragma once

#include <cstdint>
#include <optional>

#include "base/address.h"
#include "target/page_cache.h"

namespace heapsnap {

class RubyIdTable {
 public:
  // Nothing where there cannot be one. `cache` outlives it.
  static std::optional<RubyIdTable> at(PageCache& cache, uint64_t address);

  // How many keys there is room for.
  uint64_t capacity() const { return capacity_; }
  // Calls see(key, value as an address, where the value is), ascending by place, until it returns
  // false.
  template <typename See>
  void each(See see) const;

 private:
  static constexpr uint64_t kItems = 16;
  static constexpr uint64_t kItemBytes = 16;
  static constexpr uint64_t kItemValue = 8;

  RubyIdTable(PageCache& cache, Address items, uint64_t capacity)
      : cache_(&cache), items_(items), capacity_(capacity) {}

  PageCache* cache_;
  Address items_;
  uint64_t capacity_;
};

template <typename See>
void RubyIdTable::each(See see) const {
  for (uint64_t i = 0; i < capacity_; ++i) {
    const Address item = items_ + i * kItemBytes;
    const auto key = cache_->word(item, 4);
    const auto value = cache_->word(item + kItemValue, 8);
    if (!key || !value) return;
    if (*key != 0 && *value % 8 == 0 && *value != 0 &&
        !see(*key, Address(*value), item + kItemValue)) {
      return;
    }
  }
}

}  // namespace heapsnap
