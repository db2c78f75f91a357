#include "runtime/ruby/ruby_transient.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/unit/runtime/fake_ruby.h"

using namespace heapsnap;
using test::FakeRuby;

namespace {

// The transient heap of Ruby 3.1: an arena of four blocks, of which two are in use.
struct FakeTransientHeap {
  static constexpr uint64_t kState = FakeRuby::kVariables + 0x100;
  static constexpr uint64_t kArena = 0x50000000;
  static constexpr uint64_t kBlock = 0x8000;

  FakeRuby ruby;
  const RubyLayout& layout = ruby.layout;

  FakeTransientHeap() {
    ruby.target.map("50000000-50020000 rw-p 00000000 00:00 0");
    ruby.put(kState + layout.transient_using, kArena);
    ruby.put(kState + layout.transient_marked, kArena + kBlock);
    ruby.put(kState + layout.transient_free, kArena + 2 * kBlock);
    ruby.put_int(kState + layout.transient_blocks, 2);
    ruby.put(kState + layout.transient_arena, kArena);
    ruby.put_int(kState + layout.transient_arena_index, 4);
    ruby.put_short(kArena + layout.transient_index, 0x1200);
    ruby.put_short(kArena + kBlock + layout.transient_index, 0x7ff0);
    ruby.put(kArena + 2 * kBlock + layout.transient_next, kArena + 3 * kBlock);
  }
  RubyTransientHeap find() {
    return find_ruby_transient_heap(ruby.target, layout, ruby.place.data);
  }
};

}  // namespace

TEST_CASE("Ruby's transient heap is found by its state, with what its blocks have in use") {
  FakeTransientHeap fake;
  const RubyTransientHeap heap = fake.find();
  CHECK(heap.arena == AddressRange{Address(0x50000000), Address(0x50020000)});
  CHECK(heap.used == std::vector<uint32_t>{0x1210, 0x8000, 0, 0});
  const RuntimeModel model = fake.ruby.walk();
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
  FakeTransientHeap fake;
  RubyWalk walk(fake.ruby.target, fake.ruby.place, fake.ruby.wanted());
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
  FakeTransientHeap fake;
  const uint64_t state = FakeTransientHeap::kState;
  SUBCASE("an arena beside its alignment") {
    fake.ruby.put(state + fake.layout.transient_arena, FakeTransientHeap::kArena + 0x1000);
  }
  SUBCASE("an arena that ends outside of memory") {
    fake.ruby.put_int(state + fake.layout.transient_arena_index, 5);
  }
  SUBCASE("an arena without a block") {
    fake.ruby.put_int(state + fake.layout.transient_arena_index, 0);
  }
  SUBCASE("a list that leads out of it") {
    fake.ruby.put(state + fake.layout.transient_marked, FakeRuby::kVm);
  }
  SUBCASE("a list that leads into a block") {
    fake.ruby.put(state + fake.layout.transient_free, FakeTransientHeap::kArena + 8);
  }
  SUBCASE("no list at all") {
    for (const uint32_t list :
         {fake.layout.transient_using, fake.layout.transient_marked, fake.layout.transient_free}) {
      fake.ruby.put(state + list, 0);
    }
  }
  SUBCASE("more blocks in use than there are") {
    fake.ruby.put_int(state + fake.layout.transient_blocks, 5);
  }
  SUBCASE("a status that there is not") {
    fake.ruby.put_int(state + fake.layout.transient_status, 3);
  }
  CHECK(fake.find().arena.is_empty());
  CHECK(fake.ruby.walk().runtimes.at(0).why_not.empty());
}

TEST_CASE("damaged blocks of a transient heap end their list") {
  FakeTransientHeap fake;
  const uint64_t arena = FakeTransientHeap::kArena;
  const uint64_t block = FakeTransientHeap::kBlock;
  SUBCASE("a ring") {
    fake.ruby.put(arena + block + fake.layout.transient_next, arena);
  }
  SUBCASE("a link out of it") {
    fake.ruby.put(arena + fake.layout.transient_next, 0x1234);
  }
  CHECK(fake.find().used == std::vector<uint32_t>{0x1210, 0x8000, 0, 0});
}

TEST_CASE("a block of a transient heap that says more than it has is taken for free") {
  FakeTransientHeap fake;
  fake.ruby.put_short(FakeTransientHeap::kArena + fake.layout.transient_index, 0x7ff1);
  CHECK(fake.find().used == std::vector<uint32_t>{0, 0x8000, 0, 0});
}

TEST_CASE("newer releases have no transient heap") {
  FakeRuby ruby(3, 4);
  CHECK(find_ruby_transient_heap(ruby.target, ruby.layout, ruby.place.data).arena.is_empty());
}

TEST_CASE("what objects have in the transient heap is apart from their slots") {
  FakeTransientHeap fake;
  FakeRuby& ruby = fake.ruby;
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
