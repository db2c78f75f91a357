#include "runtime/ruby/ruby_weak_maps.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "tests/unit/runtime/fake_ruby_table.h"
#include "tests/unit/runtime/known_words.h"

using namespace heapsnap;
using test::FakeRuby;
using test::FakeTable;
using test::Words;

namespace {

// What was said last of a block counts.
const ObjectClass* last_class_of(const RuntimeObjects& objects, uint64_t at) {
  const ObjectClass* found = nullptr;
  for (const RuntimeObjects::Block& block : objects.blocks) {
    if (block.at == Address(at)) found = &objects.slots.classes()[block.of_class];
  }
  return found;
}

void check_keeps_nothing(const RuntimeObjects& objects, uint64_t at) {
  const ObjectClass* const known = last_class_of(objects, at);
  REQUIRE(known != nullptr);
  CHECK(known->skip == ObjectClass::kNoReferences);
  CHECK(known->is_exact);
}

}  // namespace

TEST_CASE("up to Ruby 3.2 neither of the two tables of a weak map keeps keys or values") {
  for (const auto& version : {std::pair{2U, 7U}, {3U, 1U}, {3U, 2U}}) {
    for (const unsigned count : {2U, 30U}) {
      CAPTURE(version.second);
      CAPTURE(count);
      FakeRuby ruby(version.first, version.second);
      const uint64_t page = ruby.add_page(40, 100);
      const uint64_t map = test::add_data(ruby, page, "weakmap", false);
      FakeTable by_value(ruby, map);
      FakeTable by_key(ruby, map + 8);
      uint64_t keys = 0;
      const uint64_t gone = ruby.next_table(16);
      for (unsigned i = 0; i < count; ++i) {
        const uint64_t key = ruby.add(page, ruby.object_class, RubyType::kArray);
        const uint64_t value = ruby.add(page, ruby.object_class, RubyType::kArray);
        keys = ruby.next_table(16);
        ruby.put(keys, 1);
        ruby.put(keys + 8, key);
        by_value.add(i == 0 ? RubyTable::kDeleted : i, value, i == 0 ? gone : keys);
        by_key.add(i, key, value);
      }
      REQUIRE(ruby.walk().runtimes.at(0).why_not.empty());
      // Where the keys of a value are is the table's; a value is not.
      const ObjectClass* const entries = last_class_of(ruby.objects, by_value.entries);
      REQUIRE(entries != nullptr);
      CHECK(test::kept(*entries, 6) == Words{0, 2, 3, 5});
      CHECK(by_value.is_left_over(count, FakeTable::kRoom));
      check_keeps_nothing(ruby.objects, keys);
      CHECK(by_key.is_left_over(0, FakeTable::kRoom));
      // What a deleted entry leads to may be something else by now.
      CHECK(last_class_of(ruby.objects, gone) == nullptr);
      CHECK(by_value.is_left_over(0, 1));
    }
  }
}

TEST_CASE(
    "since Ruby 3.3 a weak map has a block for each pair, a weak map of keys one for each key") {
  for (const unsigned minor : {3U, 4U}) {
    for (const char* const kind : {"weakmap", "weakkeymap"}) {
      for (const bool is_in_slot : {false, true}) {
        CAPTURE(minor);
        CAPTURE(kind);
        CAPTURE(is_in_slot);
        FakeRuby ruby(3, minor);
        const uint64_t page = ruby.add_page(40, 100);
        const uint64_t map = test::add_data(ruby, page, kind, is_in_slot);
        FakeTable entries(ruby, map);
        const uint64_t key = ruby.add(page, ruby.object_class, RubyType::kArray);
        const uint64_t pair = ruby.next_table(16);
        ruby.put(pair, key);
        entries.add(1, pair, std::string(kind) == "weakmap" ? pair + 8 : key);
        REQUIRE(ruby.walk().runtimes.at(0).why_not.empty());
        check_keeps_nothing(ruby.objects, pair);
        // The value of the second sort is kept.
        const ObjectClass* const table = last_class_of(ruby.objects, entries.entries);
        REQUIRE(table != nullptr);
        CHECK(test::kept(*table, 6) == Words{1, 2});
      }
    }
  }
}

TEST_CASE("what is no weak map, or has no table, is left as it is") {
  FakeRuby ruby;
  const uint64_t page = ruby.add_page(40, 100);
  const auto block_of = [&](uint64_t map) {
    FakeTable table(ruby, map);
    const uint64_t keys = ruby.next_table(16);
    table.add(1, ruby.object_class, keys);
    return std::pair(table.entries, keys);
  };
  const auto other = block_of(test::add_data(ruby, page, "other", false));
  const uint64_t map = test::add_data(ruby, page, "weakmap", false);
  const auto damaged = block_of(map);
  ruby.put(ruby.word(map) + 40, 33);  // more than there is room for
  ruby.put(map + 8, 0x7000000000);
  REQUIRE(ruby.walk().runtimes.at(0).why_not.empty());
  for (const auto& [entries, keys] : {other, damaged}) {
    CHECK(last_class_of(ruby.objects, entries) == nullptr);
    CHECK(last_class_of(ruby.objects, keys) == nullptr);
  }
}
