#include "runtime/ruby/ruby_weak_maps.h"

#include <algorithm>

#include "runtime/ruby/ruby_value.h"

namespace heapsnap {

void RubyWeakMaps::add(std::span<const uint64_t> maps) {
  constexpr uint64_t kSecond = 8;
  const auto table_at = [this](uint64_t place) {
    auto table = RubyTable::at(cache_, cache_.word(Address(place), 8).value_or(0));
    if (table) graph_.add_table(table->place, table->header);
    return table;
  };
  for (const uint64_t map : maps) {
    const std::optional<RubyTable> first = table_at(map);
    if (layout_.has_pairs_of_weak_maps()) {
      if (first) add_places(*first, true);
      continue;
    }
    if (first) add_keys(*first);
    const std::optional<RubyTable> second = table_at(map + kSecond);
    if (second) objects_.left_over.push_back({second->entries});
  }
}

void RubyWeakMaps::add_keys(const RubyTable& table) {
  constexpr uint32_t kKey = 1;
  // What was said last of a block counts.
  objects_.add_block(table.entries, keys_, [] {
    ObjectClass made;
    made.name = "Hash entries";
    made.rows = {0, RubyTable::kEntryWords, kKey};
    made.is_exact = true;
    return made;
  });
  objects_.left_over.push_back({table.entries, table.bound * RubyTable::kEntry});
  add_places(table, false);
}

void RubyWeakMaps::add_places(const RubyTable& table, bool is_key) {
  constexpr uint64_t kTogether = 1 << 14;
  for (uint64_t at = table.first; at < table.bound;) {
    const uint64_t wanted = std::min({table.bound - at, kTogether, entries_left_});
    const std::vector<RubyTable::Entry> entries = table.read(memory_, at, at + wanted);
    if (entries.empty()) return;
    entries_left_ -= entries.size();
    for (const RubyTable::Entry& entry : entries) {
      const uint64_t place = is_key ? entry.key : entry.value;
      if (entry.is_deleted() || !RubyValue::is_object(place)) continue;
      objects_.add_block(Address(place), places_, [] {
        ObjectClass made;
        made.name = "weak references";
        made.skip = ObjectClass::kNoReferences;
        made.is_exact = true;
        return made;
      });
    }
    at += entries.size();
  }
}

}  // namespace heapsnap
