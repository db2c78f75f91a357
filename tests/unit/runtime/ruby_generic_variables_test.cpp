#include "runtime/ruby/ruby_generic_variables.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/runtime/fake_ruby_table.h"
#include "tests/unit/runtime/known_words.h"

using namespace heapsnap;
using test::FakeRuby;
using test::FakeTable;
using test::Words;

namespace {

constexpr uint64_t kHasVariables = 1 << 10;
constexpr uint64_t kWord = FakeRuby::kVariables + 0x800;  // of the module's data

uint64_t add_variables(FakeRuby& ruby, uint64_t count) {
  const uint64_t at = ruby.next_table(8 + count * 8);
  ruby.put(at, count | uint64_t{0x5555} << 32);  // padding
  for (uint64_t i = 0; i < count; ++i) ruby.put(at + 8 + i * 8, ruby.object_class);
  return at;
}

uint64_t held_by(const FakeRuby& ruby, uint64_t object) {
  for (const RuntimeObjects::Listed& one : ruby.objects.listed) {
    if (one.by == Address(object)) return one.at.value();
  }
  return 0;
}

}  // namespace

TEST_CASE("an object that has no room for variables holds those that it has elsewhere") {
  for (const auto& [major, minor] : {std::pair{2U, 7U}, {3U, 1U}, {3U, 2U}, {3U, 3U}, {3U, 4U}}) {
    const std::string version = std::to_string(major) + "." + std::to_string(minor);
    CAPTURE(version);
    FakeRuby ruby(major, minor);
    const uint64_t page = ruby.add_page(40, 100);
    const uint64_t array = ruby.add(page, ruby.object_class, RubyType::kArray, kHasVariables);
    const uint64_t hash = ruby.add(page, ruby.object_class, RubyType::kHash, kHasVariables);
    const uint64_t gone = ruby.add(page, ruby.object_class, RubyType::kHash, kHasVariables);
    FakeTable table(ruby, kWord);
    const uint64_t few = add_variables(ruby, 3);
    const uint64_t many = add_variables(ruby, 100);
    table.add(1, array, few);
    table.add(RubyTable::kDeleted, gone, add_variables(ruby, 2));
    table.add(2, hash, many);
    REQUIRE(ruby.walk().runtimes.at(0).why_not.empty());
    REQUIRE(ruby.objects.listed.size() == 2);
    CHECK(held_by(ruby, array) == few);
    CHECK(held_by(ruby, hash) == many);
    for (uint64_t i = 0; i < 3; ++i) CHECK(table.is_left_over(i, i + 1));
    // How many there are, and what is behind the last one, are none of them.
    ruby.objects.seal();
    const ObjectClass* const known = test::class_of(ruby.objects, few);
    REQUIRE(known != nullptr);
    CHECK(test::kept(*known, 10) == Words{1, 2, 3});
    CHECK(ruby.objects.buffer_kinds.at(known->kind - 1).name == "Object variables");
    const ObjectClass* const large = test::class_of(ruby.objects, many);
    REQUIRE(large != nullptr);
    CHECK(large->skip == 1);
    CHECK(std::ranges::any_of(ruby.objects.left_over, [&](const RuntimeObjects::LeftOver& one) {
      return one.in == Address(many) && one.from == 101 * 8;
    }));
  }
}

TEST_CASE("where there are too many shapes, variables of an object are in a table of their own") {
  FakeRuby ruby(3, 4);
  const uint64_t page = ruby.add_page(40, 100);
  constexpr uint64_t kTooMany = uint64_t{3} << 32;
  const uint64_t array =
      ruby.add(page, ruby.object_class, RubyType::kArray, kHasVariables | kTooMany);
  FakeTable table(ruby, kWord);
  FakeTable own(ruby, kWord + 8);
  own.add(1, 0x1230, ruby.object_class);
  const uint64_t variables = ruby.next_table(16);
  ruby.put(variables, own.at);
  table.add(1, array, variables);
  REQUIRE(ruby.walk().runtimes.at(0).why_not.empty());
  CHECK(held_by(ruby, array) == variables);
  ruby.objects.seal();
  const ObjectClass* const known = test::class_of(ruby.objects, variables);
  REQUIRE(known != nullptr);
  CHECK(test::kept(*known, 10) == Words{0});
  const ObjectClass* const entries = test::class_of(ruby.objects, own.entries);
  REQUIRE(entries != nullptr);
  CHECK(test::kept(*entries, 6) == Words{1, 2});
}

TEST_CASE("a table that is none of variables of objects keeps what it has") {
  FakeRuby ruby;
  const uint64_t page = ruby.add_page(40, 100);
  const uint64_t array = ruby.add(page, ruby.object_class, RubyType::kArray, kHasVariables);
  const uint64_t variables = add_variables(ruby, 3);
  std::vector<FakeTable> tables;
  const auto add = [&](uint64_t type, uint64_t key, uint64_t value) {
    FakeTable table(ruby, kWord, type);
    table.add(1, array, variables);
    table.add(2, key, value);
    tables.push_back(table);
  };
  constexpr uint64_t kType = FakeTable::kType;
  SUBCASE("its functions are not the interpreter's") {
    add(0x201000, array, variables);
  }
  SUBCASE("an object that has none") {
    add(kType, ruby.add(page, ruby.object_class, RubyType::kArray), variables);
  }
  SUBCASE("an object that has room for them") {
    add(kType, ruby.add(page, ruby.object_class, RubyType::kObject, kHasVariables), variables);
  }
  SUBCASE("no object") {
    add(kType, 0x71, variables);
  }
  SUBCASE("no variables") {
    add(kType, array, 0x71);
  }
  SUBCASE("more than there can be") {
    const uint64_t wrong = ruby.next_table(16);
    ruby.put(wrong, UINT32_MAX);
    add(kType, array, wrong);
  }
  SUBCASE("none at all") {
    const uint64_t wrong = ruby.next_table(16);
    add(kType, array, wrong);
  }
  SUBCASE("outside of what can be read") {
    add(kType, array, 0x7000000000);
  }
  SUBCASE("more entries than it has room for") {
    FakeTable table(ruby, kWord);
    table.add(1, array, variables);
    ruby.put(table.at + 40, 33);
  }
  REQUIRE(ruby.walk().runtimes.at(0).why_not.empty());
  CHECK(ruby.objects.listed.empty());
  for (const FakeTable& table : tables) {
    CHECK_FALSE(table.is_left_over(0, 1));
    CHECK_FALSE(table.is_left_over(1, 2));
  }
}

TEST_CASE(
    "of several tables the largest is that of variables of objects, as far as it can be read") {
  FakeRuby ruby;
  const uint64_t page = ruby.add_page(40, 100);
  FakeTable small(ruby, kWord);
  FakeTable large(ruby, kWord + 8);
  const uint64_t variables = add_variables(ruby, 3);
  for (uint64_t i = 0; i < 3; ++i) {
    const uint64_t array = ruby.add(page, ruby.object_class, RubyType::kArray, kHasVariables);
    if (i == 0) small.add(1, array, variables);
    large.add(1, array, variables);
  }
  REQUIRE(ruby.walk().runtimes.at(0).why_not.empty());
  CHECK(large.is_left_over(0, 3));
  CHECK_FALSE(small.is_left_over(0, 1));
  CHECK(ruby.objects.listed.size() == 3);
}
