#include <doctest/doctest.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tests/unit/runtime/fake_python.h"

using namespace heapsnap;
using test::FakePython;

TEST_CASE("objects of all interpreters are counted, wherever their arenas are") {
  for (const unsigned minor : {11U, 12U, 13U, 14U}) {
    for (const bool has_arena : {false, true}) {
      if (has_arena && minor == 11) continue;
      CAPTURE(minor);
      CAPTURE(has_arena);
      FakePython python(minor);
      python.add_interpreter(has_arena);
      const uint64_t order =
          python.add_type("Order", python.object_type, 32, 0, FakePython::kCollected);
      python.add_orders(order);
      python.add_orders(order, has_arena ? 1 : 0);
      const RuntimeModel model = python.walk();
      CHECK(model.runtimes[0].why_not == "");
      CHECK(model.runtimes[0].interpreters == 2);
      CHECK(model.runtimes[0].areas == (has_arena ? 2 : 1));
      REQUIRE(test::find_class(model, "Order") != nullptr);
      CHECK(*test::find_class(model, "Order") == RuntimeClass{0, "Order", 40, 20, 40 * 48, 0, 0});
      CHECK(test::adds_up(model));
    }
  }
}

TEST_CASE("where allocators are in other builds, the main interpreter's says") {
  FakePython python(13);
  const PythonLayout& layout = python.layout;
  constexpr uint64_t kMore = 56;
  constexpr uint64_t kMain = FakePython::kState + 0x10000;
  python.target.map("00140000-00150000 rw-p 00000000 00:00 0");
  python.add_interpreter(true);
  python.add_orders(python.add_type("Order", python.object_type, 32, 0, FakePython::kCollected), 1);
  python.place.runtime_size += kMore;
  const std::pair<uint32_t, uint64_t> said[] = {
      {layout.debug_version, 0x030d05f0},
      {layout.debug_runtime_size, python.place.runtime_size},
      {layout.debug_first_interpreter, layout.runtime_first_interpreter},
      {layout.debug_interpreter_next, layout.interpreter_next},
      {layout.debug_type_name, layout.type_name},
      {layout.debug_type_flags, layout.type_flags},
      {layout.debug_dict_keys, layout.dict_keys},
      {layout.debug_dict_values, layout.dict_values},
      {layout.debug_text_length, layout.text_length},
      {layout.debug_text_state, layout.text_state},
      {layout.debug_text_ascii_size, layout.text_ascii_size}};
  for (const auto& [at, value] : said) python.put(FakePython::kState + at, value);
  python.target.put_bytes(Address(FakePython::kState),
                          std::as_bytes(std::span(std::string_view("xdebugpy"))));
  // A program's own state is a part of the runtime's.
  python.put(FakePython::kOtherInterpreter + layout.interpreter_next, kMain);
  const uint64_t allocator = layout.interpreter_obmalloc + kMore;
  python.put(kMain + allocator, FakePython::kAllocator);
  python.put(FakePython::kOtherInterpreter + allocator, FakePython::kOtherAllocator);
  python.put(FakePython::kOtherInterpreter + layout.interpreter_obmalloc, 0);
  const RuntimeModel model = python.walk();
  CHECK(model.runtimes[0].why_not == "");
  CHECK(model.runtimes[0].areas == 2);
  REQUIRE(test::find_class(model, "Order") != nullptr);
  CHECK(test::find_class(model, "Order")->count == 20);
  python.put(kMain + allocator, 0);
  CHECK(python.walk().runtimes[0].why_not.find("where the arenas of each are") !=
        std::string::npos);
}

TEST_CASE("an interpreter's arenas that do not fit are refused in words") {
  for (const unsigned minor : {12U, 13U, 14U}) {
    CAPTURE(minor);
    FakePython python(minor);
    python.add_interpreter(true);
    const uint64_t other = python.allocator_of(FakePython::kOtherInterpreter);
    std::string why = "does not fit";
    SUBCASE("too many") {
      python.put_int(other + python.layout.obmalloc_arena_count, UINT32_MAX);
    }
    SUBCASE("elsewhere") {
      python.put(other + python.layout.obmalloc_arenas, FakePython::kTypes + 8);
    }
    SUBCASE("another's") {
      python.put(FakePython::kTable + FakePython::kTableDistance + python.layout.arena_address,
                 FakePython::kArena);
      python.put(FakePython::kTable + FakePython::kTableDistance + python.layout.arena_pool_address,
                 FakePython::kFirstPool);
      why = "overlap";
    }
    CHECK(python.walk().runtimes[0].why_not.find(why) != std::string::npos);
  }
}
