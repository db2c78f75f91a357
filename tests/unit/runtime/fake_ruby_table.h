// A st_table in the memory of a FakeRuby, with room for 32 entries, and objects that have some.
#pragma once

#include <algorithm>
#include <string>

#include "runtime/ruby/ruby_table.h"
#include "tests/unit/runtime/fake_ruby.h"

namespace heapsnap::test {

struct FakeTable {
  static constexpr uint64_t kRoom = 32;
  static constexpr uint64_t kType = FakeRuby::kVariables + 0x900;  // functions of the module's

  // `word` leads to it.
  FakeTable(FakeRuby& fake, uint64_t word, uint64_t type = kType)
      : ruby(fake), at(fake.next_table(56)), entries(fake.next_table(kRoom * RubyTable::kEntry)) {
    ruby.put(word, at);
    ruby.put(at, 5);  // room for so many, and no bins
    ruby.put(at + RubyTable::kType, type);
    ruby.put(at + RubyTable::kEntries, entries);
  }
  void add(uint64_t hash, uint64_t key, uint64_t value) {
    const uint64_t bound = ruby.word(at + RubyTable::kBound);
    const uint64_t entry = entries + bound * RubyTable::kEntry;
    ruby.put(entry, hash);
    ruby.put(entry + 8, key);
    ruby.put(entry + 16, value);
    ruby.put(at + RubyTable::kBound, bound + 1);
    const bool is_deleted = hash == RubyTable::kDeleted;
    ruby.put(at + RubyTable::kCount, ruby.word(at + RubyTable::kCount) + (is_deleted ? 0 : 1));
  }
  // Whether no word of these entries is a reference.
  bool is_left_over(uint64_t from, uint64_t to) const {
    return std::ranges::any_of(ruby.objects.left_over, [&](const RuntimeObjects::LeftOver& one) {
      return one.in == Address(entries) && one.from <= from * RubyTable::kEntry &&
             one.to >= to * RubyTable::kEntry;
    });
  }

  FakeRuby& ruby;
  uint64_t at;
  uint64_t entries;
};

// An object of type "weakmap" and the like: gives where what it has is, in a block or in its slot.
inline uint64_t add_data(FakeRuby& ruby, uint64_t page, const std::string& kind, bool is_in_slot) {
  const uint64_t at = ruby.add(page, ruby.object_class, RubyType::kData);
  const uint64_t type = ruby.next_table(24);
  const uint64_t name = ruby.next_table(kind.size() + 1);
  ruby.put(type, name);
  ruby.target.put_bytes(Address(name), std::as_bytes(std::span(kind.c_str(), kind.size() + 1)));
  ruby.put(at + 16, type);
  ruby.put(at + 24, is_in_slot ? 3 : 1);
  if (is_in_slot) return at + 32;
  const uint64_t data = ruby.next_table(24);
  ruby.put(at + 32, data);
  return data;
}

}  // namespace heapsnap::test
