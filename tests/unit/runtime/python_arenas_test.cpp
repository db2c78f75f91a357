#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "tests/unit/runtime/fake_python.h"

using namespace heapsnap;
using test::FakePython;

namespace {

// Arena `number` of the table has this address, and nothing else that fits.
void put_address(FakePython& python, uint64_t number, uint64_t address) {
  const uint64_t at = FakePython::kTable + number * python.layout.arena_size;
  python.put(at + python.layout.arena_address, address);
  python.put(at + python.layout.arena_pool_address, address + 8);
  python.put_int(at + python.layout.arena_total_pools, 5);
}

}  // namespace

TEST_CASE("an arena that is being made, linked or freed hides no other") {
  constexpr uint64_t kOther = 0x50000000;  // 64 pools
  for (const unsigned minor : {10U, 11U, 12U, 13U, 14U}) {
    CAPTURE(minor);
    FakePython python(minor);
    python.add_orders(python.add_type("Order", python.object_type, 32, 0, FakePython::kCollected));
    SUBCASE("mapped, and nothing else is set") {
      python.target.map("50000000-50100000 rw-p 00000000 00:00 0");
      put_address(python, 3, kOther);
    }
    SUBCASE("unmapped, and still there") {
      const uint64_t at = FakePython::kTable + 3 * python.layout.arena_size;
      put_address(python, 3, kOther);
      python.put_int(at + python.layout.arena_total_pools, 64);
      python.put_int(at + python.layout.arena_free_pools, 64);
    }
    SUBCASE("with links to where the table was") {
      python.put(FakePython::kTable + python.layout.arena_next, 0x123450);
    }
    const RuntimeModel model = python.walk();
    CHECK(model.runtimes[0].why_not == "");
    CHECK(model.runtimes[0].areas == 1);
    REQUIRE(test::find_class(model, "Order") != nullptr);
    CHECK(test::find_class(model, "Order")->count == 20);
  }
}

TEST_CASE("a table that does not fit is not taken for a Python without arenas") {
  for (const unsigned minor : {10U, 11U, 13U}) {
    CAPTURE(minor);
    FakePython python(minor);
    python.add_orders(python.add_type("Order", python.object_type, 32, 0, FakePython::kCollected));
    // `type` is in the interpreter's data, and tp_mro of it in a pool.
    python.place.data.push_back({Address(FakePython::kTypes), Address(FakePython::kTexts)});
    python.put(python.type_type + python.layout.type_base + 88, FakePython::kFirstPool + 64);
    SUBCASE("two arenas in change") {
      put_address(python, 3, 0x50000000);
      put_address(python, 4, 0x50200000);
      python.target.map("50000000-50400000 rw-p 00000000 00:00 0");
    }
    SUBCASE("memory that something was written to") {
      put_address(python, 3, 0x50000000);
      python.target.map("50000000-50100000 rw-p 00000000 00:00 0");
      python.put(0x50000000 + 8, 1);
    }
    SUBCASE("unmapped while pools were in use") {
      put_address(python, 3, 0x50000000);
    }
    const std::string why_not = python.walk().runtimes[0].why_not;
    const std::string why = minor < 12 ? "table of its arenas was not found" : "does not fit";
    CHECK(why_not.find(why) != std::string::npos);
  }
}
