#include "runtime/ruby/ruby_code_tables.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/runtime/fake_ruby.h"
#include "tests/unit/runtime/known_words.h"

using namespace heapsnap;
using test::class_of;
using test::FakeRuby;

namespace {

// From where on a block is left over.
std::optional<uint64_t> end_of(const RuntimeObjects& objects, uint64_t at) {
  for (const RuntimeObjects::LeftOver& one : objects.left_over) {
    if (one.in == Address(at) && one.to == RuntimeObjects::LeftOver::kToEnd) return one.from;
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("what code of Ruby 2.7 remembers of constants is no reference") {
  RuntimeObjects objects;
  FakeRuby ruby(3, 1);
  const RubyLayout layout = *ruby_layouts(2, 7).at(0);
  const uint64_t body = ruby.next_table(512);
  const uint64_t entries = ruby.next_table(64);
  ruby.put(body + layout.code_constants, entries);
  RubyCodeTables(ruby.target.memory(), layout, objects).add_of(Address(body));
  const ObjectClass* const known = class_of(objects, entries);
  REQUIRE(known != nullptr);
  CHECK(known->is_exact);
  for (const unsigned word : {0U, 1U, 3U, 4U}) CHECK_FALSE(known->skips(word));
  for (const unsigned word : {2U, 5U}) CHECK(known->skips(word));
  // Later releases have it among objects.
  RuntimeObjects later;
  RubyCodeTables(ruby.target.memory(), ruby.layout, later).add_of(Address(body));
  CHECK(class_of(later, entries) == nullptr);
}

TEST_CASE(
    "the code of a rescue or an ensure is held by a catch table, whose pointers lie between") {
  for (const auto& [major, minor] : {std::pair{2U, 7U}, {3U, 1U}, {3U, 3U}, {3U, 4U}}) {
    RuntimeObjects objects;
    FakeRuby ruby(3, 1);
    const RubyLayout layout = *ruby_layouts(major, minor).at(0);
    const uint64_t body = ruby.next_table(512);
    const uint64_t table = ruby.next_table(160);
    const uint64_t rescued = ruby.next_table(40);
    const uint64_t ensured = ruby.next_table(40);
    ruby.put(body + layout.code_locals + 8, table);
    ruby.put_int(table, 3);
    ruby.put(table + 4 + 8, rescued);
    ruby.put(table + 4 + 64 + 8, ensured);  // the entry between the two has no code
    RubyCodeTables(ruby.target.memory(), layout, objects).add_of(Address(body));
    REQUIRE(objects.listed.size() == 2);
    CHECK(objects.listed[0].by == Address(table));
    CHECK(objects.listed[0].at == Address(rescued));
    CHECK(objects.listed[0].offset == 1);
    CHECK(objects.listed[1].at == Address(ensured));
    CHECK(objects.listed[1].offset == 9);
  }
}

TEST_CASE("names and lines of Ruby's code are numbers, and behind its end the rest is left over") {
  for (const auto& [major, minor] : {std::pair{2U, 7U}, {3U, 1U}, {3U, 3U}, {3U, 4U}}) {
    const std::string version = std::to_string(major) + "." + std::to_string(minor);
    CAPTURE(version);
    RuntimeObjects objects;
    FakeRuby ruby(3, 1);
    const RubyLayout layout = *ruby_layouts(major, minor).at(0);
    const uint64_t body = ruby.next_table(512);
    std::vector<uint64_t> numbers;
    for (const uint32_t pointer : {layout.code_optional, layout.code_lines, layout.code_lines + 8,
                                   layout.code_line_index, layout.code_locals}) {
      numbers.push_back(ruby.next_table(32));
      ruby.put(body + pointer, numbers.back());
    }
    const uint64_t code = ruby.next_table(64);
    ruby.put(body + layout.code_begin, code);
    ruby.put_int(body + layout.code_size, 6);
    const uint64_t calls = ruby.next_table(64);
    if (layout.code_calls != RubyLayout::kNone) {
      ruby.put(body + layout.code_calls, calls);
      ruby.put_int(body + layout.code_call_count, 3);
    }
    RubyCodeTables(ruby.target.memory(), layout, objects).add_of(Address(body));
    for (const uint64_t table : numbers) {
      const ObjectClass* const known = class_of(objects, table);
      REQUIRE(known != nullptr);
      CHECK(known->skip == ObjectClass::kNoReferences);
      CHECK(known->is_exact);
    }
    CHECK(end_of(objects, code) == 48);
    if (layout.code_calls != RubyLayout::kNone) CHECK(end_of(objects, calls) == 48);
  }
}

TEST_CASE("code of which nothing can be read has no tables") {
  RuntimeObjects objects;
  FakeRuby ruby;
  RubyCodeTables tables(ruby.target.memory(), ruby.layout, objects);
  tables.add_of(Address());
  tables.add_of(Address(0x123456789000));
  CHECK(objects.blocks.empty());
  CHECK(objects.left_over.empty());
}
