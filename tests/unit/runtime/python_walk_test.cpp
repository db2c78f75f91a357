#include "runtime/python/python_walk.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/unit/runtime/fake_python.h"

using namespace heapsnap;
using test::FakePython;

namespace {

const RuntimeClass* find_class(const RuntimeModel& model, const std::string& name) {
  for (const RuntimeClass& row : model.classes) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// 20 objects of 48 bytes with a header of the collector, the first ten of them tracked.
uint64_t add_orders(FakePython& python, uint64_t type) {
  const uint64_t pool = python.add_pool(48, 20);
  for (uint64_t i = 0; i < 20; ++i) {
    const uint64_t at = python.block(pool, 48, i);
    if (i < 10) {
      python.put(at, at + 48);
      python.put(at + 8, at);
    }
    python.put(at + 16, 1);
    python.put(at + 24, type);
  }
  return pool;
}

}  // namespace

TEST_CASE("objects are counted by type, free blocks and buffers are none") {
  FakePython python;
  const uint64_t order =
      python.add_type("Order", python.object_type, 32, 0, FakePython::kCollected);
  const uint64_t number = python.add_type("Number", python.object_type, 24, 0, FakePython::kReady);
  const uint64_t pool = add_orders(python, order);
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
  REQUIRE(find_class(model, "Order") != nullptr);
  CHECK(*find_class(model, "Order") == RuntimeClass{0, "Order", 18, 9, 18 * 48, 0, 0});
  REQUIRE(find_class(model, "Number") != nullptr);
  CHECK(*find_class(model, "Number") == RuntimeClass{0, "Number", 2, 0, 2 * 24, 0, 0});
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
  add_orders(python, order);
  const uint64_t pool = add_orders(python, order);
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
    CHECK(python.walk().runtimes[0].why_not.find("PYTHONMALLOC=debug") != std::string::npos);
  }
}

TEST_CASE("random damage never adds up to more than there is") {
  std::mt19937_64 random(4711);
  for (int round = 0; round < 300; ++round) {
    FakePython python;
    const uint64_t order =
        python.add_type("Order", python.object_type, 32, 0, FakePython::kCollected);
    const uint64_t pool = add_orders(python, order);
    for (int i = 0; i < 8; ++i) {
      const uint64_t places[] = {FakePython::kTable, order, pool, FakePython::kState,
                                 python.type_type};
      python.put(places[random() % 5] + random() % 0x200 * 8,
                 random() % 2 == 0 ? random() : places[random() % 5] + random() % 0x400);
    }
    REQUIRE(test::adds_up(python.walk()));
  }
}
