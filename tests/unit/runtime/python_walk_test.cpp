#include "runtime/python/python_walk.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <span>
#include <string_view>

#include "tests/unit/runtime/fake_python.h"

using namespace heapsnap;
using test::FakePython;

TEST_CASE("objects are counted by type, free blocks and buffers are none") {
  FakePython python;
  const uint64_t order =
      python.add_type("Order", python.object_type, 32, 0, FakePython::kCollected);
  const uint64_t number = python.add_type("Number", python.object_type, 24, 0, FakePython::kReady);
  const uint64_t pool = python.add_orders(order);
  python.free_block(pool, python.block(pool, 48, 3));
  python.free_block(pool, python.block(pool, 48, 15));
  const uint64_t numbers = python.add_pool(32, 5);
  for (uint64_t i = 0; i < 3; ++i) {
    python.put(python.block(numbers, 32, i), i);  // the first one is kept for reuse
    python.put(python.block(numbers, 32, i) + 8, number);
  }
  const RuntimeModel model = python.walk();
  REQUIRE(model.runtimes.size() == 1);
  const Runtime& runtime = model.runtimes[0];
  CHECK(runtime.why_not == "");
  CHECK(runtime.interpreters == 1);
  CHECK(runtime.objects == 20);
  REQUIRE(test::find_class(model, "Order") != nullptr);
  CHECK(*test::find_class(model, "Order") == RuntimeClass{0, "Order", 18, 9, 18 * 48, 0, 0});
  REQUIRE(test::find_class(model, "Number") != nullptr);
  CHECK(*test::find_class(model, "Number") == RuntimeClass{0, "Number", 2, 0, 2 * 24, 0, 0});
  CHECK(runtime.used_bytes == 18 * 48 + 5 * 32);
  CHECK(runtime.other_slots == 3);
  CHECK(runtime.other_slot_bytes == 3 * 32);
  CHECK(runtime.free_page_bytes == 61 * FakePython::kPool);
  CHECK(runtime.alignment_bytes == FakePython::kPool);
  CHECK(runtime.used_bytes + runtime.free_bytes + runtime.overhead_bytes + runtime.free_page_bytes +
            runtime.alignment_bytes ==
        runtime.area_bytes);
  REQUIRE(model.pages.size() == 2);
  CHECK(model.pages[0] == RuntimePages{0, 32, 1, 5, (FakePython::kPool - 48) / 32 - 5});
  CHECK(test::adds_up(model));
}

TEST_CASE("attributes of instances are counted where a version keeps them") {
  constexpr uint64_t kAttributes = 8 + 6 * 8;  // the order in which they came, and they
  for (const unsigned minor : {11U, 12U, 13U, 14U}) {
    FakePython python(minor);
    const uint64_t type = python.add_class("Order");
    const uint64_t inlined = minor >= 13 ? kAttributes + 8 : 0;
    const uint64_t slot = 48 + inlined;
    const uint64_t pool = python.add_pool(slot, 3);
    for (uint64_t i = 0; i < 3; ++i) {
      python.put(python.block(pool, slot, i) + 32, 1);
      python.put(python.block(pool, slot, i) + 40, type);
      if (minor >= 13) python.put(python.block(pool, slot, i) + 48, 6);
    }
    const uint64_t first = python.block(pool, slot, 0);
    const uint64_t second = python.block(pool, slot, 1);
    // Two have an array of their own, unless these words are weak references and a dict.
    for (const uint64_t at : {first, second}) {
      python.put(at + (minor == 11 ? 0 : 8), 0x240000 - (minor == 12 ? 1 : 0));
    }
    python.put(first + (minor == 11 ? 8 : 0), 0x240000);
    const RuntimeModel model = python.walk();
    const uint64_t owned = minor >= 13 ? 0 : 2 * kAttributes;
    REQUIRE(test::find_class(model, "Order") != nullptr);
    CHECK(*test::find_class(model, "Order") == RuntimeClass{0, "Order", 3, 0, 3 * slot, owned, 0});
  }
}

TEST_CASE("attributes far behind an instance's begin are taken for as many as its block has") {
  // The first instances of a class have room for 30; this one's block is not read that far.
  constexpr uint64_t kSize = 400;
  constexpr uint64_t kRoom = 32 + kSize + 32 + 31 * 8;
  constexpr uint64_t kBlock = 0x260000;
  FakePython python(14);
  const uint64_t type = python.add_class("Numbers");
  python.put(type + python.layout.type_basic_size, kSize);
  python.add_orders(python.add_type("Order", python.object_type, 32, 0, FakePython::kCollected));
  python.put(kBlock + 32, 1);
  python.put(kBlock + 40, type);
  PythonWalk walk(python.target, python.place);
  const std::vector<uint64_t> sizes = {kRoom + 8};
  const std::vector<ChunkState> states = {ChunkState::kUsed};
  ChunkBatch batch;
  batch.begin = Address(kBlock - 16);
  batch.sizes = sizes;
  batch.states = states;
  walk.on_batch(batch);
  RuntimeModel model;
  walk.take(model);
  REQUIRE(test::find_class(model, "Numbers") != nullptr);
  CHECK(test::find_class(model, "Numbers")->bytes == kRoom);
}

TEST_CASE("an object's count of references may have flags above it since 3.14") {
  for (const unsigned minor : {13U, 14U}) {
    CAPTURE(minor);
    FakePython python(minor);
    const uint64_t number =
        python.add_type("Number", python.object_type, 24, 0, FakePython::kReady);
    const uint64_t pool = python.add_pool(32, 4);
    const uint64_t words[] = {3, uint64_t{1} << 48 | uint64_t{3} << 30, uint64_t{1} << 48,
                              uint64_t{1} << 32 | 3};
    for (uint64_t i = 0; i < std::size(words); ++i) {
      python.put(python.block(pool, 32, i), words[i]);
      python.put(python.block(pool, 32, i) + 8, number);
    }
    const RuntimeModel model = python.walk();
    REQUIRE(test::find_class(model, "Number") != nullptr);
    CHECK(test::find_class(model, "Number")->count == 2);
  }
}

TEST_CASE("objects are objects while the collector counts what leads to them") {
  FakePython python;
  const uint64_t order =
      python.add_type("Order", python.object_type, 32, 0, FakePython::kCollected);
  const uint64_t pool = python.add_orders(order);
  // Of the ten that are tracked, three are counted, and one was found to be garbage.
  for (const uint64_t number : {1U, 2U, 3U}) {
    python.put(python.block(pool, 48, number) + 8, (number - 1) << 2 | 2);
  }
  python.put(python.block(pool, 48, 4), python.block(pool, 48, 5) | 2);
  const RuntimeModel model = python.walk();
  CHECK(*test::find_class(model, "Order") == RuntimeClass{0, "Order", 20, 10, 20 * 48, 0, 0});
  // A small word that is no count is none.
  python.put(python.block(pool, 48, 1) + 8, 4);
  CHECK(test::find_class(python.walk(), "Order")->count == 19);
}

TEST_CASE("numbers say how long they are, in the version's way") {
  constexpr uint64_t kLong = FakePython::kReady | 1 << 24;
  for (const unsigned minor : {10U, 11U, 12U, 13U, 14U}) {
    FakePython python(minor);
    const uint64_t type = python.add_type("int", python.object_type, 24, 4, kLong);
    const uint64_t pool = python.add_pool(48, 2);
    for (uint64_t i = 0; i < 2; ++i) {
      const uint64_t at = python.block(pool, 48, i);
      python.put(at, minor < 12 ? 1 : UINT32_MAX);  // as many references as immortals have
      python.put(at + 8, type);
      python.put(at + 16, minor < 12 ? 0 - uint64_t{4} : 4 << 3 | 2);  // four digits, negative
    }
    const RuntimeModel model = python.walk();
    REQUIRE(test::find_class(model, "int") != nullptr);
    CHECK(*test::find_class(model, "int") == RuntimeClass{0, "int", 2, 0, 2 * 40, 0, 0});
  }
}

TEST_CASE("arrays of numpy own their data, and what says of what shape it is") {
  FakePython python;
  const uint64_t array =
      python.add_type("numpy.ndarray", python.object_type, 96, 0, FakePython::kReady);
  const uint64_t pool = python.add_pool(96, 6);
  const auto at = [&](uint64_t slot) { return python.block(pool, 96, slot); };
  python.put_array(at(0), array, {10, 20});
  python.put_array(at(1), array, {3, 0, 5});
  python.put_array(at(2), array, {});
  python.put_array(at(3), array, {10});
  python.put(at(3) + PythonArray::kFlags, 1);  // a view of another's
  python.put_array(at(4), array, {10});
  python.put(at(4) + PythonArray::kShape, 0xdead000);
  python.put_array(at(5), array, {uint64_t{1} << 39});
  const RuntimeModel model = python.walk();
  REQUIRE(test::find_class(model, "numpy.ndarray") != nullptr);
  const RuntimeClass& row = *test::find_class(model, "numpy.ndarray");
  CHECK(row.count == 6);
  CHECK(row.bytes == 6 * 96);
  CHECK(row.owned_bytes == (10 * 20 * 8 + 2 * 16) + 3 * 16 + 16);
  CHECK(row.malloc_bytes == row.owned_bytes);
  REQUIRE_FALSE(python.objects.blocks.empty());
  CHECK(python.objects.blocks[0].at == Address(FakePython::kShapes));
  const uint32_t of_shape = python.objects.blocks[0].of_class;
  CHECK(python.objects.slots.classes()[of_shape].skip == ObjectClass::kNoReferences);
  const ObjectClass& of_array = python.objects.slots.class_of(0);
  REQUIRE(of_array.buffers.size() == 2);
  CHECK(of_array.buffers[0].word == 2);
  CHECK(python.objects.buffer_kinds[of_array.buffers[0].kind].name == "ndarray data");
}

TEST_CASE("items that are objects and a type are no object") {
  FakePython python;
  const uint64_t number = python.add_type("Number", python.object_type, 24, 0, FakePython::kReady);
  const uint64_t pool = python.add_pool(32, 2);
  const uint64_t object = python.block(pool, 32, 0);
  python.put(object, 1);
  python.put(object + 8, number);
  // A list [type, type]: the first word is the address of an object.
  python.put(python.block(pool, 32, 1), number);
  python.put(python.block(pool, 32, 1) + 8, number);
  const RuntimeModel model = python.walk();
  CHECK(model.runtimes[0].objects == 1);
  CHECK(model.runtimes[0].other_slots == 1);
}

TEST_CASE("a pool that contradicts itself is left out, and said so") {
  FakePython python;
  const uint64_t order =
      python.add_type("Order", python.object_type, 32, 0, FakePython::kCollected);
  python.add_orders(order);
  const uint64_t pool = python.add_orders(order);
  SUBCASE("a free list that leaves it") {
    python.free_block(pool, python.block(pool, 48, 3));
    python.put(python.block(pool, 48, 3), pool + FakePython::kPool + 48);
  }
  SUBCASE("a free list in a circle") {
    python.free_block(pool, python.block(pool, 48, 3));
    python.put(python.block(pool, 48, 3), python.block(pool, 48, 3));
  }
  SUBCASE("of another arena") {
    python.put_int(pool + python.layout.pool_arena, 1);
  }
  SUBCASE("a size that no class has") {
    python.put_int(pool + python.layout.pool_size_class, 32);
  }
  const RuntimeModel model = python.walk();
  CHECK(model.runtimes[0].damaged_pages == 1);
  CHECK(model.runtimes[0].unread_bytes == FakePython::kPool);
  CHECK(model.runtimes[0].objects == 20);
}

TEST_CASE("what does not fit is refused in words") {
  FakePython python;
  SUBCASE("no interpreter") {
    python.put(FakePython::kState + python.layout.runtime_first_interpreter, 0);
    CHECK(python.walk().runtimes[0].why_not.find("no interpreter") != std::string::npos);
  }
  SUBCASE("an interpreter of something else") {
    python.put(FakePython::kInterpreter + python.layout.interpreter_runtime, 1);
    CHECK(python.walk().runtimes[0].why_not.find("something else") != std::string::npos);
  }
  SUBCASE("a circle of interpreters") {
    python.put(FakePython::kInterpreter + python.layout.interpreter_next, FakePython::kInterpreter);
    CHECK(python.walk().runtimes[0].why_not.find("does not end") != std::string::npos);
  }
  SUBCASE("nothing that looks like an object") {
    python.add_pool(48, 20);
    const RuntimeModel model = python.walk();
    CHECK(model.runtimes[0].why_not.find("PYTHONMALLOC=debug") != std::string::npos);
    // Nothing of it is told.
    CHECK(model.runtimes[0].used_bytes == 0);
    CHECK(model.areas.empty());
    CHECK(model.pages.empty());
    CHECK(model.classes.empty());
  }
}

TEST_CASE("random damage never adds up to more than there is") {
  std::mt19937_64 random(4711);
  for (int round = 0; round < 300; ++round) {
    FakePython python(10 + static_cast<unsigned>(round) % 5);
    const uint64_t order =
        python.add_type("Order", python.object_type, 32, 0, FakePython::kCollected);
    const uint64_t pool = python.add_orders(order);
    for (int i = 0; i < 8; ++i) {
      const uint64_t places[] = {FakePython::kTable, order, pool, FakePython::kState,
                                 python.type_type};
      python.put(places[random() % 5] + random() % 0x200 * 8,
                 random() % 2 == 0 ? random() : places[random() % 5] + random() % 0x400);
    }
    REQUIRE(test::adds_up(python.walk()));
  }
}

TEST_CASE("slots have classes, and globals of modules are variables") {
  FakePython python(11);
  const PythonLayout& layout = python.layout;
  const uint64_t module =
      python.add_type("module", python.object_type, 56, 0, FakePython::kCollected);
  const uint64_t dict =
      python.add_type("dict", python.object_type, 48, 0, FakePython::kCollected | 1 << 29);
  const uint64_t text =
      python.add_type("str", python.object_type, 80, 0, FakePython::kReady | 1 << 28);
  const uint64_t weak =
      python.add_type("weakref", python.object_type, 56, 0, FakePython::kCollected);
  const uint64_t pool = python.add_pool(80, 8);
  const auto object = [&](uint64_t slot, uint64_t header, uint64_t type) {
    const uint64_t at = python.block(pool, 80, slot) + header;
    python.put(at, 1);
    python.put(at + 8, type);
    return at;
  };
  const auto name = [&](uint64_t slot, std::string_view characters) {
    const uint64_t at = object(slot, 0, text);
    python.put_characters(at, characters);
    return at;
  };
  // Names of the length that a slot of 80 bytes is for.
  const uint64_t app = name(0, "application_of_orders");
  const uint64_t cache = name(1, "CACHE_OF_ALL_THE_ORDERS");
  const uint64_t own = name(2, "__name_of_the_module__");
  const uint64_t keys = python.block(pool, 80, 3);  // no object
  python.put(keys + layout.keys_references, 1);
  python.target.put(Address(keys + layout.keys_log2_size), uint8_t{2});
  python.target.put(Address(keys + layout.keys_log2_index_bytes), uint8_t{3});
  python.target.put(Address(keys + layout.keys_kind), uint8_t{1});
  python.put(keys + layout.keys_entries, 2);
  const uint64_t entries = keys + layout.keys_header + 8;
  python.put(entries, cache);
  python.put(entries + 16, own);
  const uint64_t globals = object(4, 16, dict);
  python.put(globals + layout.dict_keys, keys);
  const uint64_t one = object(5, 16, module);
  python.put(one + 16, globals);
  python.put(one + 48, app);
  object(6, 16, weak);
  const RuntimeModel model = python.walk();
  REQUIRE(model.runtimes[0].why_not == "");
  const SlotMap& slots = python.objects.slots;
  CHECK(slots.size() == 8);
  CHECK(test::fits(python.objects));
  CHECK(slots.class_of(0).name == "str");
  CHECK(slots.class_of(0).skips(6));  // characters
  CHECK_FALSE(slots.class_of(0).skips(1));
  CHECK(slots.class_of(3).name.empty());
  CHECK(slots.class_of(4).object_at == 16);
  CHECK(slots.class_of(4).skip == 7);  // the collector's links, and the count of references
  REQUIRE(slots.class_of(4).buffers.size() == 2);
  CHECK(python.objects.buffer_kinds[slots.class_of(4).buffers[0].kind].name == "dict keys");
  CHECK(slots.class_of(6).skips(4));  // what it refers to
  CHECK_FALSE(slots.class_of(6).skips(5));
  REQUIRE(python.objects.variables.size() == 1);
  CHECK(python.objects.variables[0].name == "application_of_orders.CACHE_OF_ALL_THE_ORDERS");
  CHECK(python.objects.variables[0].word == Address(entries + 8));
}

TEST_CASE("what an object does not use of its buffer is no reference") {
  constexpr uint64_t kList = 1 << 25;
  constexpr uint64_t kDict = 1 << 29;
  FakePython python(11);
  const PythonLayout& layout = python.layout;
  const uint64_t list =
      python.add_type("list", python.object_type, 40, 0, FakePython::kCollected | kList);
  const uint64_t dict =
      python.add_type("dict", python.object_type, 48, 0, FakePython::kCollected | kDict);
  const uint64_t set = python.add_type("set", python.object_type, 200, 0, FakePython::kCollected);
  const uint64_t pool = python.add_pool(64, 3);
  const uint64_t items = python.block(pool, 64, 0);
  const uint64_t one = python.block(pool, 64, 1) + 16;
  python.put(one, 1);
  python.put(one + 8, list);
  python.put(one + 16, 3);
  python.put(one + layout.list_allocated - 8, items);
  python.put(one + layout.list_allocated, 8);
  const uint64_t other = python.block(pool, 64, 2) + 16;
  python.put(other, 1);
  python.put(other + 8, dict);
  const uint64_t tables = python.add_pool(240, 1);
  const uint64_t keys = python.block(tables, 240, 0);
  python.put(other + layout.dict_keys, keys);
  python.put(keys, 1);
  python.target.put(Address(keys + layout.keys_log2_size), uint8_t{3});
  python.target.put(Address(keys + layout.keys_log2_index_bytes), uint8_t{3});
  python.put(keys + layout.keys_entries, 2);
  const uint64_t sets = python.add_pool(224, 2);
  for (uint64_t i = 0; i < 2; ++i) {
    const uint64_t at = python.block(sets, 224, i) + 16;
    python.put(at, 1);
    python.put(at + 8, set);
    python.put(at + layout.set_mask, i == 0 ? 7 : 31);
    python.put(at + layout.set_table, i == 0 ? at + layout.set_small_table : 0x270000);
  }
  python.walk();
  const SlotMap& slots = python.objects.slots;
  CHECK(slots.class_of(0).name.empty());
  CHECK(slots.class_of(0).skip == ObjectClass::words_from(3));
  CHECK(slots.class_of(1).name == "list");
  CHECK(python.objects.buffer_kinds[slots.class_of(1).buffers[0].kind].is_exact);
  // A header of four words, one of indices, and entries of a hash, a key and a value.
  const ObjectClass& table = slots.class_of(3);
  for (const uint64_t word : {0U, 4U, 5U, 8U, 11U, 12U, 13U}) CHECK(table.skips(word));
  for (const uint64_t word : {6U, 7U, 9U, 10U}) CHECK_FALSE(table.skips(word));
  const uint64_t small = (16 + layout.set_small_table) / 8;
  for (const uint64_t slot : {4U, 5U}) {
    CHECK(slots.class_of(slot).skips(small) == (slot == 5));
    CHECK(slots.class_of(slot).skips(small + 1));
    CHECK_FALSE(slots.class_of(slot).skips((16 + layout.set_table) / 8));
  }
}

TEST_CASE("what lies behind the fields of a program's class is no reference") {
  constexpr uint64_t kHeapType = FakePython::kCollected | 1 << 9;
  FakePython python;
  // 16 bytes of the collector's, seven fields behind the head, and a word behind them.
  const auto add = [&](const char* name, uint64_t base) {
    return python.add_type(name, base, 72, 0, kHeapType);
  };
  const uint64_t handle = add("Handle", python.object_type);
  const uint64_t of_library = add("lib.Handle", python.object_type);
  const std::vector<std::pair<uint64_t, bool>> types = {{handle, true},
                                                        {add("TimerHandle", handle), true},
                                                        {of_library, false},
                                                        {add("Derived", of_library), false}};
  const uint64_t pool = python.add_pool(96, types.size());
  for (uint64_t i = 0; i < types.size(); ++i) {
    python.put(python.block(pool, 96, i) + 16, 1);
    python.put(python.block(pool, 96, i) + 24, types[i].first);
  }
  python.walk();
  for (uint32_t i = 0; i < types.size(); ++i) {
    const ObjectClass& known = python.objects.slots.class_of(i);
    CHECK_FALSE(known.name.empty());
    CHECK(known.is_exact == types[i].second);
    CHECK_FALSE(known.skips((16 + 64) / 8));
    CHECK(known.skips((16 + 72) / 8) == types[i].second);
  }
}

TEST_CASE("behind the end of a class's docstring lies no reference") {
  FakePython python(10);
  const uint64_t metatype =
      python.add_type("Meta", python.type_type, 400, 0, FakePython::kTypeFlags);
  const uint64_t block = python.block(python.add_pool(416, 1), 416, 0);
  python.put(block + 16, 1);
  python.put(block + 16 + 8, metatype);
  constexpr uint64_t kDocstring = 0x27d000;
  constexpr uint64_t kDocstringAt = 16 + 176;  // tp_doc
  python.put(block + kDocstringAt, kDocstring);
  python.walk();
  const std::vector<RuntimeObjects::LeftOver>& found = python.objects.left_over;
  CHECK(std::any_of(found.begin(), found.end(), [](const RuntimeObjects::LeftOver& one) {
    return one.in == Address(kDocstring) && one.from == 0 &&
           one.to == RuntimeObjects::LeftOver::kToEnd;
  }));
  const std::vector<ObjectClass::Buffer>& buffers = python.objects.slots.class_of(0).buffers;
  REQUIRE(buffers.size() == 1);
  CHECK(buffers[0].word * 8 == kDocstringAt);
  CHECK(python.objects.buffer_kinds[buffers[0].kind].name == "class docstring");
}

TEST_CASE("memory behind the frames of a thread is left over") {
  constexpr uint64_t kThread = 0x270000;
  constexpr uint64_t kChunk = 0x271000;
  constexpr uint64_t kBefore = 0x272000;
  FakePython python(11);
  const PythonLayout& layout = python.layout;
  python.put(FakePython::kInterpreter + layout.interpreter_threads, kThread);
  python.put(kThread + layout.thread_stack_chunk, kChunk);
  python.put(kThread + layout.thread_stack_top, kChunk + layout.chunk_data + 5 * 8);
  python.put(kChunk + layout.chunk_previous, kBefore);
  for (const uint64_t chunk : {kChunk, kBefore}) python.put(chunk + layout.chunk_size, 0x800);
  python.put(kBefore + layout.chunk_top, 7);
  python.walk();
  const auto& unused = python.objects.unused;
  const AddressRange behind{Address(kChunk) + layout.chunk_data + 5 * 8, Address(kChunk) + 0x800};
  const AddressRange before{Address(kBefore) + layout.chunk_data + 7 * 8, Address(kBefore) + 0x800};
  CHECK(std::find(unused.begin(), unused.end(), behind) != unused.end());
  CHECK(std::find(unused.begin(), unused.end(), before) != unused.end());
}

TEST_CASE("before 3.11, the frame that a function keeps for its next call holds nothing") {
  for (const unsigned minor : {10U, 11U}) {
    FakePython python(minor);
    const uint64_t frame =
        python.add_type("frame", python.object_type, 360, 8, FakePython::kCollected);
    const uint64_t pool = python.add_pool(432, 3);
    for (uint64_t i = 0; i < 3; ++i) {
      python.put(python.block(pool, 432, i) + 16, i % 2);
      python.put(python.block(pool, 432, i) + 24, frame);
    }
    // The list of free frames leads on, but what called the function once is nobody's.
    const uint64_t back = 16 + python.layout.frame_back;
    python.put(python.block(pool, 432, 0) + back, python.block(pool, 432, 2) + 16);
    python.put(python.block(pool, 432, 2) + back, python.block(pool, 432, 1) + 16);
    python.walk();
    const SlotMap& slots = python.objects.slots;
    CHECK(slots.class_of(0).name == (minor == 10 ? "frame (free)" : ""));
    CHECK(slots.class_of(1).name == "frame");
    if (minor != 10) continue;
    CHECK(slots.class_of(0).skips(47));
    CHECK_FALSE(slots.class_of(0).skips(back / 8));
    CHECK(slots.class_of(2).name == "frame (free)");
    CHECK(slots.class_of(2).skips(back / 8));
  }
}
