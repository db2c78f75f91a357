#include "runtime/ruby/ruby_words.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "references/slot_map.h"
#include "tests/unit/runtime/fake_ruby.h"
#include "tests/unit/runtime/known_words.h"

using namespace heapsnap;
using test::FakeRuby;
using test::Words;

namespace {

// The words of a slot that may be references.
Words kept(unsigned minor, RubyType type, uint64_t flags, size_t words) {
  const RubyLayout& layout = *ruby_layouts(3, minor).at(0);
  std::vector<uint64_t> slot(words);
  slot[0] = static_cast<uint64_t>(type) | flags;
  ObjectClass one;
  one.skip = ruby_words_to_skip(std::as_bytes(std::span(slot)), layout, RubyShapes());
  return test::kept(one, static_cast<unsigned>(words));
}

constexpr uint64_t kUser1 = RubyValue::user_flag(1);
constexpr uint64_t kUser3 = RubyValue::user_flag(3);

}  // namespace

TEST_CASE("in a slot, what is behind the last item is left over") {
  CHECK(kept(1, RubyType::kArray, kUser1 | 2 << 15, 5) == Words{1, 2, 3});
  CHECK(kept(2, RubyType::kArray, kUser1 | 5 << 15, 10) == Words{1, 2, 3, 4, 5, 6});
  CHECK(kept(2, RubyType::kStruct, 2 << 13, 5) == Words{1, 2, 3});
  CHECK(kept(4, RubyType::kArray, kUser1 | 5 << 15, 10) == Words{1, 2, 3, 4, 5, 6});
  CHECK(kept(4, RubyType::kArray, kUser1, 10) == Words{1});
  CHECK(kept(4, RubyType::kArray, kUser1 | 78 << 15, 80).size() == 79);
  CHECK(kept(1, RubyType::kStruct, 2 << 13, 5) == Words{1, 2, 3});
  CHECK(kept(4, RubyType::kStruct, 4 << 13, 10) == Words{1, 2, 3, 4, 5});
  CHECK(kept(4, RubyType::kHash, uint64_t{2} << 20, 20) == Words{1, 2, 4, 5, 6, 7});
  // Of an environment: code, ep, where it is.
  CHECK(kept(4, RubyType::kImemo, 0, 5) == Words{1, 2, 3});
  CHECK(kept(4, RubyType::kImemo, 7 << 12, 5) == Words{1, 2, 3, 4});
}

TEST_CASE("of what lies elsewhere, only its place is a reference, and what it is shared with") {
  const RubyLayout& old = *ruby_layouts(3, 1).at(0);
  const RubyLayout& current = *ruby_layouts(3, 4).at(0);
  CHECK(kept(1, RubyType::kArray, 0, 5) == Words{1, 4});
  CHECK(kept(4, RubyType::kArray, 0, 10) == Words{1, 4});
  CHECK(kept(1, RubyType::kArray, old.flag_shared, 5) == Words{1, 3});
  CHECK(kept(4, RubyType::kArray, current.flag_shared, 10) == Words{1, 3});
  CHECK(kept(4, RubyType::kString, kUser1, 10) == Words{1, 3});
  CHECK(kept(4, RubyType::kString, kUser1 | current.flag_shared, 10) == Words{1, 4});
  CHECK(kept(4, RubyType::kString, 0, 10) == Words{1});
  CHECK(kept(1, RubyType::kStruct, 0, 5) == Words{1, 3});
  CHECK(kept(4, RubyType::kStruct, 0, 10) == Words{1, 3});
  CHECK(kept(1, RubyType::kObject, 0, 5) == Words{1, 3});
  CHECK(kept(2, RubyType::kObject, 0, 5) == Words{1, 2});
  CHECK(kept(4, RubyType::kObject, 0, 10) == Words{1, 2});
  CHECK(kept(2, RubyType::kHash, kUser3, 5) == Words{1, 2, 3});
  CHECK(kept(1, RubyType::kHash, kUser3, 5) == Words{1, 2, 3});
  CHECK(kept(4, RubyType::kHash, kUser3, 20) == Words{1, 2, 4, 6, 9});
}

TEST_CASE("entries of a hash that are deleted, behind the last one, or hashes are left over") {
  for (const unsigned minor : {1U, 4U}) {
    CAPTURE(minor);
    FakeRuby ruby(3, minor);
    const bool is_in_slot = minor == 4;
    const uint64_t page = ruby.add_page(is_in_slot ? 160 : 40, 10);
    // A hash with entries, of which those with a number in `deleted` are.
    const auto add = [&](uint64_t power, uint64_t first, uint64_t bound,
                         const std::vector<uint64_t>& deleted) {
      const uint64_t hash = ruby.add(page, ruby.object_class, RubyType::kHash, kUser3);
      const uint64_t table = is_in_slot ? hash + 24 : ruby.next_table(56);
      const uint64_t entries = ruby.next_table((uint64_t{1} << power) * 24);
      if (!is_in_slot) ruby.put(hash + 16, table);
      ruby.put(table, power);
      ruby.put(table + 16, bound - first - deleted.size());
      ruby.put(table + 32, first);
      ruby.put(table + 40, bound);
      ruby.put(table + 48, entries);
      for (const uint64_t number : deleted) ruby.put(entries + number * 24, ~uint64_t{0});
      return entries;
    };
    const uint64_t small = add(4, 0, 5, {});
    const uint64_t holes = add(4, 2, 9, {4, 5, 8});
    const uint64_t large = add(6, 0, 40, {});
    const uint64_t damaged = add(4, 0, 5000, {});
    REQUIRE(ruby.walk().runtimes.at(0).why_not.empty());
    std::vector<std::array<uint64_t, 3>> left_over;
    for (const RuntimeObjects::LeftOver& one : ruby.objects.left_over) {
      const bool is_of_table = one.in.value() >= small;  // the headers of pages lie before
      if (is_of_table) left_over.push_back({one.in.value(), one.from, one.to});
    }
    std::sort(left_over.begin(), left_over.end());
    std::vector<std::array<uint64_t, 3>> expected = {
        {holes, 0, 48},
        {holes, 96, 144},
        {holes, 192, 216},
        {large, 960, RuntimeObjects::LeftOver::kToEnd}};
    std::sort(expected.begin(), expected.end());
    CHECK(left_over == expected);
    const auto class_of = [&](uint64_t at) -> const ObjectClass& {
      for (const RuntimeObjects::Block& block : ruby.objects.blocks) {
        if (block.at == Address(at)) return ruby.objects.slots.classes()[block.of_class];
      }
      FAIL("no block");
      return ruby.objects.slots.classes()[0];
    };
    const auto words_of = [&](uint64_t at, unsigned count) {
      Words found;
      for (unsigned i = 0; i < count; ++i) {
        if (!class_of(at).skips(i)) found.push_back(i);
      }
      return found;
    };
    CHECK(class_of(small).name == "Hash entries");
    CHECK(words_of(small, 100) == Words{1, 2, 4, 5, 7, 8, 10, 11, 13, 14});
    CHECK(words_of(large, 7) == Words{1, 2, 4, 5});
    CHECK(words_of(damaged, 3) == Words{0, 1, 2});
  }
}

TEST_CASE("buffers of an object's own are called by what they hold") {
  for (const unsigned minor : {1U, 4U}) {
    CAPTURE(minor);
    FakeRuby ruby(3, minor);
    const uint64_t page = ruby.add_page(40, 10);
    const uint64_t place = ruby.next_table(256);
    const auto add = [&](RubyType type, uint64_t flags, unsigned word) {
      const uint64_t slot = ruby.add(page, ruby.object_class, type, flags);
      ruby.put(slot + 16, 2);
      ruby.put(slot + word * 8, place);
      return slot;
    };
    const unsigned of_object = ruby.layout.has_shapes() ? 2 : 3;
    const uint64_t array = add(RubyType::kArray, 0, 4);
    const uint64_t shares = add(RubyType::kArray, ruby.layout.flag_shared, 4);
    const uint64_t in_slot = add(RubyType::kArray, kUser1 | 1 << 15, 2);
    const uint64_t structure = add(RubyType::kStruct, 0, 3);
    const uint64_t object = add(RubyType::kObject, 0, of_object);
    const uint64_t number = add(RubyType::kBignum, 0, 3);
    const uint64_t digits = ruby.next_table(16);
    ruby.put(number + 24, digits);
    REQUIRE(ruby.walk().runtimes.at(0).why_not.empty());
    // "4 Array items": the word that leads there, and what is there.
    const auto buffer_of = [&](uint64_t slot) -> std::string {
      const SlotMap& slots = ruby.objects.slots;
      const auto& buffers = slots.class_of(slots.find(slot)->number).buffers;
      if (buffers.empty()) return "";
      return std::to_string(buffers.front().word) + " " +
             ruby.objects.buffer_kinds[buffers.front().kind].name;
    };
    CHECK(buffer_of(array) == "4 Array items");
    CHECK(buffer_of(shares).empty());
    CHECK(buffer_of(in_slot).empty());
    CHECK(buffer_of(structure) == "3 Struct members");
    CHECK(buffer_of(object) == std::to_string(of_object) + " Object variables");
    bool has_digits = false;
    for (const RuntimeObjects::Block& block : ruby.objects.blocks) {
      if (block.at != Address(digits)) continue;
      const ObjectClass& known = ruby.objects.slots.classes()[block.of_class];
      has_digits = known.name == "Integer digits" && known.skips(0);
    }
    CHECK(has_digits);
  }
}
