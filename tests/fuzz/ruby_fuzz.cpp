// A Ruby heap, calls of methods, and a heap of young objects, whose words the input changes:
// whatever they are, its walk ends, and what it says adds up.
#include <cstdint>
#include <cstring>
#include <span>

#include "tests/unit/runtime/fake_ruby_calls.h"
#include "tests/unit/runtime/fake_ruby_table.h"
#include "tests/unit/runtime/fake_transient_heap.h"

using namespace heapsnap;
using test::FakeRuby;
using test::FakeRubyCalls;
using test::FakeTable;
using test::FakeTransientHeap;

namespace {

// Objects whose buffers lie in the transient heap.
void add_young(FakeRuby& ruby, uint64_t page) {
  constexpr uint64_t kBuffer = FakeTransientHeap::kArena + 0x100;
  const auto add = [&](RubyType type, uint64_t flags, std::initializer_list<uint64_t> words) {
    uint64_t at = ruby.add(page, ruby.object_class, type, flags) + 16;
    for (const uint64_t word : words) {
      ruby.put(at, word);
      at += 8;
    }
  };
  add(RubyType::kArray, RubyValue::user_flag(13), {3, 6, kBuffer});
  add(RubyType::kObject, RubyValue::user_flag(13), {5, kBuffer + 0x80});
  add(RubyType::kHash, RubyValue::user_flag(12) | uint64_t{2} << 20, {kBuffer + 0x100});
  add(RubyType::kStruct, RubyValue::user_flag(3), {4, kBuffer + 0x180});
}

// Variables of an array, in a table of the machine's, and a weak map.
void add_tables(FakeRuby& ruby, uint64_t page) {
  constexpr uint64_t kHasVariables = 1 << 10;
  const uint64_t array = ruby.add(page, ruby.object_class, RubyType::kArray, kHasVariables);
  const uint64_t variables = ruby.next_table(32);
  ruby.put(variables, 3);
  FakeTable(ruby, FakeRuby::kVariables + 0x800).add(1, array, variables);
  const uint64_t map = test::add_data(ruby, page, "weakmap", false);
  for (const uint64_t word : {map, map + 8}) FakeTable(ruby, word).add(1, array, variables);
}

}  // namespace

// The first byte chooses a version; then ten bytes for each change: a place in one of many parts,
// and the word that comes there.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kChange = 10;
  constexpr unsigned kVersions[][2] = {{2, 7}, {3, 1}, {3, 3}, {3, 4}};
  if (size == 0) return 0;
  const auto& version = kVersions[data[0] % 4];
  FakeRuby ruby(version[0], version[1]);
  add_tables(ruby, ruby.add_page(40, 8));
  const uint64_t order = ruby.add_class("Order", ruby.object_class);
  ruby.add_singleton(order, ruby.class_class);
  const uint64_t page = ruby.add_page(40, 64);
  constexpr RubyType kTypes[] = {RubyType::kObject, RubyType::kHash,  RubyType::kString,
                                 RubyType::kArray,  RubyType::kData,  RubyType::kStruct,
                                 RubyType::kBignum, RubyType::kImemo, RubyType::kMatch};
  for (uint64_t i = 0; i < 60; ++i) {
    const uint64_t at = ruby.add(page, order, kTypes[i % std::size(kTypes)], i % 8 << 12);
    ruby.put(at + 16, FakeRuby::kTables + i * 64);
    ruby.put(at + 24, i % 4);
  }
  ruby.leave_unswept(page, 30);
  const FakeRubyCalls calls(ruby);
  const FakeRuby::VariableWords& words = calls.variables;
  std::vector<uint64_t> parts = {
      FakeRuby::kVm, FakeRuby::kSpace, FakeRuby::kList, FakeRuby::kHeaders, FakeRuby::kTree,
      FakeRuby::kTables, order, ruby.slot(page, 0),
      // The variables of Ruby, and the tables that lead to them.
      FakeRuby::kVariables, words.constant - 0x200, words.global - 0x200, words.of_class - 0x100,
      // Calls of methods.
      FakeRubyCalls::kStack, calls.frames.back(), calls.thread, calls.context, calls.outer_code,
      calls.inner_code};
  if (ruby.layout.has_transient_heap()) {
    add_young(ruby, ruby.add_page(40, 8));
    FakeTransientHeap{ruby};
    for (const uint64_t part :
         {FakeTransientHeap::kArena, FakeTransientHeap::kArena + FakeTransientHeap::kBlock}) {
      parts.push_back(part);
    }
  }
  for (size_t i = 1; i + kChange <= size && i < 64 * kChange; i += kChange) {
    uint16_t place = 0;
    uint64_t value = 0;
    std::memcpy(&place, data + i, sizeof place);
    std::memcpy(&value, data + i + sizeof place, sizeof value);
    // Half of the words are addresses in the parts: nothing else leads anywhere.
    if (value % 2 == 0) value = parts[value / 2 % parts.size()] + value / 32 % 0x2000;
    ruby.put(parts[place % parts.size()] + place / parts.size() % 0x1ff * 8, value);
  }
  RubyWalk walk(ruby.target, ruby.place, ruby.wanted());
  // Chunks at the places of all that objects own.
  const std::vector<uint64_t> sizes(64, 0x40);
  const std::vector<ChunkState> states(64, ChunkState::kUsed);
  ChunkBatch batch;
  batch.begin = Address(FakeRuby::kTables - 16);
  batch.sizes = sizes;
  batch.states = states;
  walk.on_batch(batch);
  RuntimeModel model;
  walk.take(model);
  if (!test::adds_up(model)) __builtin_trap();
  ruby.objects.slots.seal();
  if (!test::fits(ruby.objects) || !test::is_sound(ruby.objects)) __builtin_trap();
  return 0;
}
