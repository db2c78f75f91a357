#include "runtime/ruby/ruby_collector.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/unit/runtime/fake_transient_heap.h"

using namespace heapsnap;
using test::FakeRuby;
using test::FakeTransientHeap;

namespace {

using LeftOver = RuntimeObjects::LeftOver;

bool has(const FakeRuby& ruby, uint64_t in, uint64_t from, uint64_t to) {
  return std::any_of(ruby.objects.left_over.begin(), ruby.objects.left_over.end(),
                     [&](const LeftOver& one) {
                       return one.in == Address(in) && one.from == from && one.to == to;
                     });
}

}  // namespace

TEST_CASE("the state of Ruby's collector keeps no object, but its tables") {
  for (const unsigned minor : {1U, 3U, 4U}) {
    CAPTURE(minor);
    FakeRuby ruby(3, minor);
    const uint64_t page = ruby.add_page(40, 100);
    const uint64_t object = ruby.add(page, ruby.object_class, RubyType::kHash);
    const uint64_t last = ruby.layout.space_bytes - 8;
    ruby.put(FakeRuby::kSpace + last, object);
    ruby.put(FakeRuby::kSpace + last + 8, object);    // behind it
    ruby.put(FakeRuby::kSpace + last - 8, 0x212340);  // a table
    REQUIRE(ruby.walk().runtimes[0].why_not.empty());
    CHECK(has(ruby, FakeRuby::kSpace, last, last + 8));
    CHECK_FALSE(has(ruby, FakeRuby::kSpace, last - 8, last));
    CHECK_FALSE(has(ruby, FakeRuby::kSpace, last + 8, last + 16));
    CHECK_FALSE(has(ruby, FakeRuby::kSpace, ruby.layout.space_pages, ruby.layout.space_pages + 8));
  }
}

TEST_CASE("what is on the collector's stack it does not keep, also while it marks") {
  FakeRuby ruby;
  const uint64_t chunk = 0x220000;
  const uint64_t spare = 0x222000;
  ruby.put(FakeRuby::kSpace + ruby.layout.space_mark_chunk, chunk);
  ruby.put(FakeRuby::kSpace + ruby.layout.space_mark_cache, spare);
  ruby.put(spare + ruby.layout.mark_chunk_next, spare);  // a ring
  SUBCASE("at rest") {}
  SUBCASE("while it marks") {
    ruby.put_int(FakeRuby::kSpace + ruby.layout.space_flags, 1);
    CHECK(ruby.walk().runtimes[0].collector == "marking");
  }
  ruby.walk();
  CHECK(has(ruby, chunk, 0, ruby.layout.mark_chunk_next));
  CHECK(has(ruby, spare, 0, ruby.layout.mark_chunk_next));
}

TEST_CASE("the header of a page does not keep what is in its first slot") {
  for (const auto& [major, minor] : {std::pair{2U, 7U}, {3U, 1U}, {3U, 4U}}) {
    FakeRuby ruby(major, minor);
    const uint64_t page = ruby.add_page(40, 100);
    ruby.add(page, ruby.object_class, RubyType::kHash);
    ruby.walk();
    CHECK(has(ruby, ruby.header_of(page), 0, LeftOver::kToEnd));
  }
}

TEST_CASE("an object that has an object_id or a finalizer is not kept by that") {
  for (const auto& [major, minor] : {std::pair{2U, 7U}, {3U, 1U}, {3U, 3U}, {3U, 4U}}) {
    FakeRuby ruby(major, minor);
    const RubyLayout& layout = ruby.layout;
    std::vector<uint64_t> entries;
    for (const uint32_t table_of :
         {layout.space_object_of_id, layout.space_id_of_object, layout.space_finalizers}) {
      const uint64_t table = ruby.next_table(56);
      entries.push_back(ruby.next_table(16 * 24));
      ruby.put(FakeRuby::kSpace + table_of, table);
      // Behind the state of the machine, where its tables are looked for, too.
      ruby.put(table, 4);
      ruby.put(table + 8, FakeRuby::kVariables + 0x900);
      ruby.put(table + 40, 16);
      ruby.put(table + 48, entries.back());
    }
    ruby.walk();
    CHECK(has(ruby, entries[0], 0, LeftOver::kToEnd));
    CHECK(has(ruby, entries[1], 0, LeftOver::kToEnd));
    CHECK_FALSE(has(ruby, entries[2], 0, LeftOver::kToEnd));
    const std::vector<RuntimeObjects::Block>& blocks = ruby.objects.blocks;
    // What was said last of a block counts.
    const auto found = std::find_if(blocks.rbegin(), blocks.rend(), [&](const auto& block) {
      return block.at == Address(entries[2]);
    });
    REQUIRE(found != blocks.rend());
    const ObjectClass& finalizers = ruby.objects.slots.classes()[found->of_class];
    for (uint64_t word = 0; word < 48; ++word) CHECK(finalizers.skips(word) == (word % 3 == 1));
  }
}

TEST_CASE("the list of what has left the transient heap keeps nothing") {
  FakeRuby ruby;
  FakeTransientHeap fake(ruby);
  const uint64_t promoted = 0x224000;
  ruby.put(FakeTransientHeap::kState + fake.layout.transient_promoted, promoted);
  ruby.walk();
  CHECK(has(ruby, promoted, 0, LeftOver::kToEnd));
}
