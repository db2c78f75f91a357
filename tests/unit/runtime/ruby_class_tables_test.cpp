#include "runtime/ruby/ruby_class_tables.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "tests/unit/runtime/fake_ruby.h"
#include "tests/unit/runtime/known_words.h"

using namespace heapsnap;
using test::FakeRuby;
using test::Words;

namespace {

// Where what a class has besides its first words is.
uint64_t place_of(FakeRuby& ruby, uint64_t of_class) {
  const uint32_t in_slot = ruby.layout.class_extension;
  return in_slot == RubyLayout::kNone ? of_class : ruby.word(of_class + in_slot);
}

// Of the first words of a block of which all words are known.
Words kept_of(const RuntimeObjects& objects, uint64_t at, unsigned words) {
  const ObjectClass* const known = test::class_of(objects, at);
  REQUIRE(known != nullptr);
  CHECK(known->is_exact);
  return test::kept(*known, words);
}

}  // namespace

TEST_CASE("links to subclasses lead to the next link alone") {
  for (const unsigned minor : {1U, 4U}) {
    CAPTURE(minor);
    FakeRuby ruby(3, minor);
    const uint64_t order = ruby.add_class("Order", ruby.object_class);
    const uint64_t first = ruby.next_table(24);
    const uint64_t second = ruby.next_table(24);
    ruby.put(first + 8, second);
    ruby.put(second, order);
    ruby.put(place_of(ruby, ruby.object_class) + ruby.layout.class_subclasses, first);
    REQUIRE(ruby.walk().runtimes.at(0).why_not.empty());
    CHECK(kept_of(ruby.objects, first, 3) == Words{1});
    CHECK(kept_of(ruby.objects, second, 3) == Words{1});
  }
}

TEST_CASE("of a table of methods every other word is a number") {
  for (const unsigned minor : {1U, 4U}) {
    CAPTURE(minor);
    FakeRuby ruby(3, minor);
    const uint64_t order = ruby.add_class("Order", ruby.object_class);
    const uint64_t table = ruby.next_table(24);
    const uint64_t items = ruby.next_table(64);
    ruby.put(table + 16, items);
    ruby.put(place_of(ruby, order) + ruby.layout.class_methods, table);
    REQUIRE(ruby.walk().runtimes.at(0).why_not.empty());
    CHECK(kept_of(ruby.objects, items, 8) == Words{1, 3, 5, 7});
  }
}

TEST_CASE("behind the calls that a class remembers of a method the rest is left over") {
  for (const unsigned minor : {1U, 3U, 4U}) {
    CAPTURE(minor);
    FakeRuby ruby(3, minor);
    const uint64_t order = ruby.add_class("Order", ruby.object_class);
    const uint64_t table = ruby.next_table(24);
    const uint64_t items = ruby.next_table(32);
    const uint64_t caches = ruby.next_table(24);
    const uint64_t calls = ruby.next_table(64);
    ruby.put_int(table, 2);
    ruby.put_int(table + 4, 1);
    ruby.put(table + 16, items);
    ruby.put_int(items + 16, 7);
    ruby.put(items + 24, caches);
    ruby.put_int(caches, 4);
    ruby.put_int(caches + 4, 3);
    ruby.put(caches + 16, calls);
    ruby.put(place_of(ruby, order) + ruby.layout.class_call_caches, table);
    REQUIRE(ruby.walk().runtimes.at(0).why_not.empty());
    const std::vector<RuntimeObjects::LeftOver>& found = ruby.objects.left_over;
    CHECK(std::count_if(found.begin(), found.end(), [&](const RuntimeObjects::LeftOver& one) {
            return one.in == Address(calls) && one.from == 48 &&
                   one.to == RuntimeObjects::LeftOver::kToEnd;
          }) == 1);
  }
}
