#include "references/slot_map.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "references/block_map.h"
#include "references/object_references.h"

using namespace heapsnap;

namespace {

constexpr uint64_t kArena = 0x7f1200000000;

ObjectClass class_with(uint32_t object_at, uint64_t skip) {
  ObjectClass made;
  made.name = "thing";
  made.object_at = object_at;
  made.skip = skip;
  return made;
}

// Gathers what is handed on.
class Kept final : public ReferenceSink {
 public:
  struct One {
    BlockNumber source;
    uint32_t offset;
    BlockNumber target;
    bool interior;
    bool operator==(const One&) const = default;
  };
  void on_references(const ReferenceBatch& batch) override {
    size_t at = 0;
    for (size_t i = 0; i < batch.counts.size(); ++i) {
      for (const size_t end = at + batch.counts[i]; at < end; ++at) {
        all.push_back({static_cast<BlockNumber>(batch.first + i), batch.offsets[at],
                       batch.targets[at], batch.interior[at] != 0});
      }
    }
  }
  std::vector<One> all;
};

}  // namespace

TEST_CASE("each address is in the slot that the slow way finds, whatever the sizes of slots") {
  std::mt19937_64 random(12);
  SlotMap map;
  const uint32_t collected = map.add_class(class_with(16, 3));
  const uint32_t managed = map.add_class(class_with(32, 12));
  const uint32_t plain = map.add_class(class_with(0, 1));
  std::map<uint64_t, std::pair<uint32_t, uint32_t>> slots;  // begin: size, class
  std::vector<uint64_t> pages;
  for (uint64_t page = 0; page < 60; ++page) {
    if (page % 7 == 3) continue;
    const uint64_t begin = kArena + page * 0x4000;
    const auto size = static_cast<uint32_t>(16 + 8 * (random() % 79));
    const uint32_t count = (0x4000 - 48) / size;
    pages.push_back(begin);
    map.add_page({Address(begin), Address(begin + 0x4000)}, Address(begin + 48), size, count);
    for (uint32_t slot = 0; slot < count; ++slot) {
      if (random() % 3 == 0) continue;
      const uint32_t of =
          size < 48 ? SlotMap::kBuffers : std::array{collected, managed, plain}[random() % 3];
      map.add_slot(slot, of);
      slots[begin + 48 + uint64_t{slot} * size] = {size, of};
    }
  }
  map.seal();
  REQUIRE(map.size() == slots.size());
  uint32_t number = 0;
  for (const auto& [begin, slot] : slots) {
    const auto& [size, of] = slot;
    const uint64_t object_at = map.classes()[of].object_at;
    for (uint64_t into = 0; into < size; into += 4) {
      const auto found = map.find(begin + into);
      REQUIRE(found);
      CHECK(found->number == number);
      const bool may_begin = of == SlotMap::kBuffers && (into == 16 || into == 32);
      CHECK(found->offset == (may_begin ? 0 : into - object_at));
      CHECK(map.begin_of(begin + into) == Address(begin));
    }
    CHECK(map.class_number(number) == of);
    ++number;
  }
  // All other addresses are in none.
  for (uint64_t at = kArena - 0x8000; at < kArena + 62 * 0x4000; at += 8) {
    const auto after = slots.upper_bound(at);
    const bool is_in =
        after != slots.begin() && at < std::prev(after)->first + std::prev(after)->second.first;
    CHECK(map.find(at).has_value() == is_in);
  }
}

TEST_CASE("pages of two runtimes are numbered by address, whoever came first") {
  SlotMap map;
  const uint32_t first = map.add_class(class_with(0, 0));
  const uint32_t second = map.add_class(class_with(16, 0));
  map.add_page({Address(0x20000), Address(0x30000 - 40)}, Address(0x20040), 640, 100);
  map.add_slot(7, first);
  map.add_page({Address(0x11000), Address(0x12000)}, Address(0x11030), 64, 60);
  map.add_slot(0, second);
  map.add_slot(59, second);
  map.seal();
  REQUIRE(map.size() == 3);
  CHECK(map.class_number(0) == second);
  CHECK(map.class_number(2) == first);
  CHECK(map.find(0x11030 + 16)->offset == 0);
  CHECK(map.find(0x20040 + 7 * 640)->number == 2);
  CHECK_FALSE(map.find(0x20040 + 8 * 640));
  const auto memory = map.memory();
  REQUIRE(memory.size() == 2);
  CHECK(memory[0] == AddressRange{Address(0x11000), Address(0x12000)});
  // What follows a page that has less than its place is none of it.
  CHECK(map.contains(0x30000 - 48));
  CHECK_FALSE(map.contains(0x30000 - 40));
}

TEST_CASE("used slots are given with their classes' words, also where a slot is cut") {
  SlotMap map;
  const uint32_t managed = map.add_class(class_with(32, 0b1100));
  const uint32_t leaf = map.add_class(class_with(0, ~uint64_t{2}));
  map.add_page({Address(0x4000), Address(0x8000)}, Address(0x4030), 80, 200);
  map.add_slot(1, managed);
  map.add_slot(3, leaf);
  map.add_slot(4, SlotMap::kBuffers);
  map.seal();
  using Part = std::tuple<uint32_t, uint64_t, uint64_t, uint64_t>;
  std::vector<Part> parts;
  const auto keep = [&](uint32_t slot, Address begin, const AddressRange& part, uint64_t skip) {
    CHECK(begin == Address(0x4030 + 80 * (slot == 0 ? 1 : slot + 2)));
    parts.emplace_back(slot, part.begin.value(), part.end.value(), skip);
  };
  map.each_part({Address(0x4000), Address(0x8000)}, keep);
  const uint64_t one = 0x4030 + 80;
  const uint64_t three = 0x4030 + 240;
  const uint64_t four = 0x4030 + 320;
  const uint64_t of_leaf = ~uint64_t{2};
  CHECK(parts == std::vector<Part>{{0, one, one + 80, 0b1100},
                                   {1, three, three + 80, of_leaf},
                                   {2, four, four + 80, 0}});
  parts.clear();
  map.each_part({Address(one + 40), Address(four + 8)}, keep);
  CHECK(parts == std::vector<Part>{{0, one + 40, one + 80, 0b1100},
                                   {1, three, three + 80, of_leaf},
                                   {2, four, four + 8, 0}});
  parts.clear();
  map.each_part({Address(three + 80), Address(four)}, keep);
  map.each_part({Address(0x4000), Address(0x4030)}, keep);
  CHECK(parts.empty());
}

TEST_CASE("which words are skipped, from a word of an object on") {
  CHECK(ObjectClass::skip_from(0b1100, 0) == 0b1100);
  CHECK(ObjectClass::skip_from(0b1100, 3) == 1);
  CHECK(ObjectClass::skip_from(0b1100, 70) == 0);
  // The last bit is for all of the rest.
  CHECK(ObjectClass::skip_from(ObjectClass::words_from(5), 4) == ~uint64_t{1});
  CHECK(ObjectClass::skip_from(ObjectClass::words_from(5), 100) == ~uint64_t{0});
}

TEST_CASE("slots are blocks behind those of malloc, and a page in a block hides it") {
  BlockMap map(Machine::kX86_64, 1 << 20);
  const std::vector<uint64_t> sizes = {64, 0x8020, 48};
  const std::vector<ChunkState> states(3, ChunkState::kUsed);
  // The second block's usable bytes begin at 0x8000.
  map.on_batch({0, 0, Address(0x8000 - 16 - 64), sizes, states});
  RuntimeObjects objects;
  const uint32_t thing = objects.slots.add_class(class_with(16, 3));
  objects.slots.add_page({Address(0x8000), Address(0xc000)}, Address(0x8030), 48, 300);
  objects.slots.add_slot(0, thing);
  objects.slots.add_slot(2, SlotMap::kBuffers);
  objects.slots.seal();
  map.set_slots(std::move(objects.slots));
  map.seal();
  REQUIRE(map.blocks() == 5);
  CHECK(map.first_slot() == 3);
  BlockMap::Hint hint;
  CHECK(map.find(0x8030 + 16, hint)->block == 3);
  CHECK(map.find(0x8030 + 16, hint)->offset == 0);
  CHECK(map.find(0x8030 + 96 + 8, hint)->block == 4);
  CHECK(map.find(0x8000, hint)->block == 1);
  CHECK(map.usable(Address(0x8030 + 16)) == 0);
  std::vector<uint64_t> addresses;
  for (uint64_t at = 0x7f00; at < 0x10200; at += 8) addresses.push_back(at);
  std::vector<BlockMap::Place> places(addresses.size());
  map.find_all(addresses, places.data(), hint);
  for (size_t i = 0; i < addresses.size(); ++i) {
    const auto expected = map.find(addresses[i], hint).value_or(BlockMap::Place{});
    CHECK(places[i].block == expected.block);
    CHECK(places[i].offset == expected.offset);
  }
  std::vector<BlockNumber> seen;
  for (const AddressRange& memory : map.memory()) {
    map.each_part(memory, [&](const BlockMap::Part& part) { seen.push_back(part.block); });
  }
  CHECK(seen == std::vector<BlockNumber>{0, 2});
  seen.clear();
  for (const AddressRange& memory : map.slots().memory()) {
    map.each_slot_part(memory,
                       [&](const BlockMap::Part& part, uint64_t) { seen.push_back(part.block); });
  }
  CHECK(seen == std::vector<BlockNumber>{3, 4});
}

TEST_CASE("a variable's word is a root, and words of objects in blocks count as their class says") {
  BlockMap map(Machine::kX86_64, 1 << 20);
  const std::vector<uint64_t> sizes = {64, 1040, 48};
  const std::vector<ChunkState> states(3, ChunkState::kUsed);
  map.on_batch({0, 0, Address(0x10000), sizes, states});
  RuntimeObjects objects;
  ObjectClass large = class_with(16, 3);
  large.buffers.push_back({4, objects.add_buffer_kind("list items", true)});
  objects.blocks.push_back({Address(0x10000 + 64 + 16), objects.slots.add_class(large)});
  objects.variables.push_back({Address(0x10000 + 16 + 8), "app.CACHE", "python"});
  objects.slots.seal();
  map.set_slots(std::move(objects.slots));
  map.seal();
  Kept kept;
  std::vector<std::pair<uint32_t, BlockNumber>> roots;
  ObjectReferences references(map, objects, kept, [&](uint32_t variable, BlockNumber target, bool) {
    roots.emplace_back(variable, target);
  });
  CHECK(references.class_of(1) == 1);
  CHECK(references.class_of(0) == 0);
  const std::vector<uint32_t> counts = {2, 3, 0};
  const std::vector<uint32_t> offsets = {0, 1, 0, 2, 4};
  const std::vector<BlockNumber> targets = {1, 1, 2, 1, 2};
  const std::vector<uint8_t> interior = {2, 2, 0, 2, 2};
  references.on_references({0, counts, offsets, targets, interior});
  using Roots = std::vector<std::pair<uint32_t, BlockNumber>>;
  CHECK(roots == Roots{{0, 1}});
  CHECK(kept.all == std::vector<Kept::One>{{0, 0, 1, false}, {1, 2, 1, false}, {1, 4, 2, true}});
  CHECK(references.buffer_kind(2) == 1);
  CHECK(references.buffer_kind(1) == 0);
}

// A word of two halves: a number that was written over the lower one of an address. Where memory
// lies on both sides of a multiple of 4 GiB, there are many that seem to lead there.
TEST_CASE("only where an object or a buffer begins, a reference is none past its first byte") {
  BlockMap map(Machine::kX86_64, 1 << 20);
  const std::vector<uint64_t> sizes = {64, 4112, 1040};
  const std::vector<ChunkState> states(3, ChunkState::kUsed);
  map.on_batch({0, 0, Address(0x10000), sizes, states});
  RuntimeObjects objects;
  ObjectClass table;
  table.rows = {0, 2, 1};
  objects.blocks.push_back({Address(0x10000 + 64 + 16), objects.slots.add_class(table)});
  objects.blocks.push_back(
      {Address(0x10000 + 4176 + 16), objects.slots.add_class(class_with(32, 15))});
  objects.slots.add_page({Address(0x8000), Address(0xc000)}, Address(0x8000), 64, 256);
  for (const uint32_t slot : {0U, 1U, 2U}) objects.slots.add_slot(slot, SlotMap::kBuffers);
  objects.add_buffer(Address(0x8000), ObjectClass::words_from(3));
  objects.add_buffer(Address(0x8040 + 8), ObjectClass::words_from(3));
  objects.seal();
  map.set_slots(std::move(objects.slots));
  map.seal();
  Kept kept;
  ObjectReferences references(map, objects, kept, [](uint32_t, BlockNumber, bool) {});
  const std::vector<uint32_t> counts = {7};
  const std::vector<uint32_t> offsets = {0, 1, 2, 3, 4, 5, 6};
  const std::vector<BlockNumber> targets = {1, 1, 1, 2, 2, 2, 2};
  const std::vector<uint8_t> interior = {0, 2, kFarInside, 0, 2, 4, kFarInside};
  references.on_references({0, counts, offsets, targets, interior});
  std::vector<bool> are_interior;
  for (const Kept::One& one : kept.all) are_interior.push_back(one.interior);
  CHECK(are_interior == std::vector<bool>{false, true, true, false, true, false, true});

  BlockMap::Hint hint;
  const auto offset = [&](uint64_t address) { return map.find(address, hint)->offset; };
  CHECK(offset(0x8000) == 0);
  CHECK(offset(0x8000 + 16) == 16);
  CHECK(offset(0x8000 + 56) == 56);
  CHECK(offset(0x8040) == 0);
  CHECK(offset(0x8040 + 7) == 0);
  CHECK(offset(0x8040 + 8) == 0);
  CHECK(offset(0x8040 + 16) == 16);
  CHECK(offset(0x8080 + 8) == 8);
  CHECK(offset(0x8080 + 16) == 0);
  CHECK(offset(0x8080 + 32) == 0);
}

TEST_CASE("how far inside of a block a reference points fits into a byte") {
  CHECK(how_far_inside(0) == 0);
  CHECK(how_far_inside(16) == 2);
  // With a mark in the lowest bit; not where that is all.
  CHECK(how_far_inside(17) == 2);
  CHECK(how_far_inside(1) == kFarInside);
  CHECK(how_far_inside(20) == kFarInside);
  CHECK(how_far_inside(254 * 8) == 254);
  CHECK(how_far_inside(255 * 8) == kFarInside);
  CHECK(how_far_inside(~uint64_t{15}) == kFarInside);
}

TEST_CASE("words that a runtime says are left over are no references, in slots and in blocks") {
  BlockMap map(Machine::kX86_64, 1 << 20);
  const std::vector<uint64_t> sizes = {64, 1040, 48};
  const std::vector<ChunkState> states(3, ChunkState::kUsed);
  map.on_batch({0, 0, Address(0x10000), sizes, states});
  RuntimeObjects objects;
  const uint32_t thing = objects.slots.add_class(class_with(16, 3));
  objects.slots.add_page({Address(0x8000), Address(0xc000)}, Address(0x8000), 64, 256);
  // Slots that are no objects come before what says how much of them is in use, and after.
  objects.add_buffer(Address(0x8040 + 16), ObjectClass::words_from(3));
  for (const uint32_t slot : {0U, 1U, 2U}) {
    objects.slots.add_slot(slot, slot == 2 ? thing : SlotMap::kBuffers);
  }
  objects.add_buffer(Address(0x8000), ObjectClass::words_from(1));
  objects.add_buffer(Address(0x8080), ObjectClass::kNoReferences);  // an object after all
  objects.add_buffer(Address(0x80c0), ObjectClass::kNoReferences);  // in no use
  objects.add_buffer(Address(0x10010), ObjectClass::words_from(2));
  ObjectClass rows;
  rows.rows = {1, 3, 0};
  const Address large(0x10000 + 64 + 16);
  objects.blocks.push_back({large, objects.slots.add_class(rows)});
  objects.left_over.push_back({large, 0, 8});
  objects.left_over.push_back({large, 64});
  objects.left_over.push_back({Address(0x8080), 56});
  objects.left_over.push_back({Address(0x20000), 0});
  objects.seal();
  CHECK(objects.slots.class_of(0).skip == ObjectClass::words_from(1));
  CHECK(objects.slots.class_of(1).skip == (ObjectClass::words_from(5) | 3));
  CHECK(objects.slots.class_number(2) == thing);
  map.set_slots(std::move(objects.slots));
  map.seal();
  REQUIRE(map.blocks() == 6);
  Kept kept;
  ObjectReferences references(map, objects, kept, [](uint32_t, BlockNumber, bool) {});
  const std::vector<uint32_t> counts = {3, 10, 0, 0, 0, 2};
  const std::vector<uint32_t> offsets = {0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 126, 6, 7};
  const std::vector<BlockNumber> targets(offsets.size(), 2);
  const std::vector<uint8_t> interior(offsets.size(), 0);
  references.on_references({0, counts, offsets, targets, interior});
  std::vector<std::pair<BlockNumber, uint32_t>> words;
  for (const Kept::One& one : kept.all) words.emplace_back(one.source, one.offset);
  using Words = std::vector<std::pair<BlockNumber, uint32_t>>;
  CHECK(words == Words{{0, 0}, {0, 1}, {1, 2}, {1, 3}, {1, 5}, {1, 6}, {5, 6}});
}
