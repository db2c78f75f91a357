#include "runtime/ruby/ruby_transient.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/unit/runtime/fake_transient_heap.h"

using namespace heapsnap;
using test::FakeRuby;
using test::FakeTransientHeap;

TEST_CASE("Ruby's transient heap is found by its state, with what its blocks have in use") {
  FakeRuby ruby;
  FakeTransientHeap fake(ruby);
  const RubyTransientHeap heap = fake.find();
  CHECK(heap.arena == AddressRange{Address(0x50000000), Address(0x50020000)});
  CHECK(heap.used == std::vector<uint32_t>{0x1210, 0x8000, 0, 0});
  const RuntimeModel model = ruby.walk();
  REQUIRE(model.runtimes.at(0).why_not.empty());
  const RuntimeArea& area = model.areas.back();
  CHECK(area.is_transient);
  CHECK_FALSE(area.is_in_malloc);
  CHECK(area.range == heap.arena);
  CHECK(area.used.bytes == 0x9210);
  CHECK(area.free_in_area.bytes == 0x20000 - 0x9210);
  // It is none of the areas that have pages.
  CHECK(model.runtimes[0].areas == model.areas.size() - 1);
  CHECK(test::adds_up(model));
}

TEST_CASE("a transient heap that lies in a block of malloc is told apart") {
  FakeRuby ruby;
  FakeTransientHeap fake(ruby);
  RubyWalk walk(ruby.target, ruby.place, ruby.wanted());
  MmappedChunk chunk;
  chunk.chunk = Address(0x4ffff000);
  chunk.size = 0x22000;
  chunk.usable = chunk.size - 16;
  chunk.state = ChunkState::kMmapped;
  walk.on_mmapped(chunk);
  RuntimeModel model;
  walk.take(model);
  CHECK(model.areas.back().is_transient);
  CHECK(model.areas.back().is_in_malloc);
}

TEST_CASE("what is no transient heap is not taken for one") {
  FakeRuby ruby;
  FakeTransientHeap fake(ruby);
  const uint64_t state = FakeTransientHeap::kState;
  SUBCASE("an arena beside its alignment") {
    ruby.put(state + fake.layout.transient_arena, FakeTransientHeap::kArena + 0x1000);
  }
  SUBCASE("an arena that ends outside of memory") {
    ruby.put_int(state + fake.layout.transient_arena_index, 5);
  }
  SUBCASE("an arena without a block") {
    ruby.put_int(state + fake.layout.transient_arena_index, 0);
  }
  SUBCASE("a list that leads out of it") {
    ruby.put(state + fake.layout.transient_marked, FakeRuby::kVm);
  }
  SUBCASE("a list that leads into a block") {
    ruby.put(state + fake.layout.transient_free, FakeTransientHeap::kArena + 8);
  }
  SUBCASE("no list at all") {
    for (const uint32_t list :
         {fake.layout.transient_using, fake.layout.transient_marked, fake.layout.transient_free}) {
      ruby.put(state + list, 0);
    }
  }
  SUBCASE("more blocks in use than there are") {
    ruby.put_int(state + fake.layout.transient_blocks, 5);
  }
  SUBCASE("a status that there is not") {
    ruby.put_int(state + fake.layout.transient_status, 3);
  }
  CHECK(fake.find().arena.is_empty());
  CHECK(ruby.walk().runtimes.at(0).why_not.empty());
}

TEST_CASE("damaged blocks of a transient heap end their list") {
  FakeRuby ruby;
  FakeTransientHeap fake(ruby);
  const uint64_t arena = FakeTransientHeap::kArena;
  const uint64_t block = FakeTransientHeap::kBlock;
  SUBCASE("a ring") {
    ruby.put(arena + block + fake.layout.transient_next, arena);
  }
  SUBCASE("a link out of it") {
    ruby.put(arena + fake.layout.transient_next, 0x1234);
  }
  CHECK(fake.find().used == std::vector<uint32_t>{0x1210, 0x8000, 0, 0});
}

TEST_CASE("a block of a transient heap that says more than it has is taken for free") {
  FakeRuby ruby;
  FakeTransientHeap fake(ruby);
  ruby.put_short(FakeTransientHeap::kArena + fake.layout.transient_index, 0x7ff1);
  CHECK(fake.find().used == std::vector<uint32_t>{0, 0x8000, 0, 0});
}

TEST_CASE("newer releases have no transient heap") {
  FakeRuby ruby(3, 4);
  CHECK(find_ruby_transient_heap(ruby.target, ruby.layout, ruby.place.data).arena.is_empty());
}

TEST_CASE("what objects have in the transient heap is apart from their slots") {
  FakeRuby ruby;
  FakeTransientHeap fake(ruby);
  const uint64_t page = ruby.add_page(40, 100);
  const uint64_t inside = FakeTransientHeap::kArena + 0x100;
  const auto add = [&](RubyType type, uint64_t flags, std::vector<uint64_t> words) {
    const uint64_t at = ruby.add(page, ruby.object_class, type, flags);
    for (size_t i = 0; i < words.size(); ++i) ruby.put(at + 16 + i * 8, words[i]);
    return at;
  };
  const uint64_t young = RubyValue::user_flag(13);
  std::vector<uint64_t> expected;
  expected.push_back(add(RubyType::kArray, young, {3, 6, inside}));
  expected.push_back(add(RubyType::kObject, young, {5, inside}));
  // Two pairs, and room for eight.
  expected.push_back(add(RubyType::kHash, RubyValue::user_flag(12) | uint64_t{2} << 20, {inside}));
  expected.push_back(add(RubyType::kStruct, RubyValue::user_flag(3), {4, inside}));
  // Not there, or not any more.
  add(RubyType::kArray, 0, {3, 6, inside});
  add(RubyType::kArray, young | FakeRuby::kEmbedded, {3, 6, inside});
  add(RubyType::kArray, young, {3, 6, FakeRuby::kVm});
  add(RubyType::kArray, young, {3, 6, inside + 4});
  add(RubyType::kArray, young, {1000, 1000, inside});
  add(RubyType::kArray, young, {3, 6, 0x50020000 - 16});
  add(RubyType::kArray, young, {0, 6, inside});
  add(RubyType::kHash, RubyValue::user_flag(12) | RubyValue::user_flag(3), {inside});
  REQUIRE(ruby.walk().runtimes.at(0).why_not.empty());
  std::vector<uint64_t> found;
  std::vector<uint32_t> sizes;
  for (const RuntimeObjects::Apart& part : ruby.objects.apart) {
    CHECK(part.words == Address(inside));
    CHECK(part.offset == 5);
    found.push_back(part.object.value());
    sizes.push_back(part.bytes);
  }
  CHECK(found == expected);
  CHECK(sizes == std::vector<uint32_t>{24, 40, 32, 32});
  // Nothing else in the arena counts.
  CHECK(ruby.objects.unused ==
        std::vector<AddressRange>{{Address(0x50000000), Address(0x50020000)}});
}
