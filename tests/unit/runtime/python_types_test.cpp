// What Python's types are called. How their instances are counted is seen in python_walk_test.cpp.
#include "runtime/python/python_types.h"

#include <doctest/doctest.h>

#include "tests/unit/runtime/fake_python.h"

using namespace heapsnap;
using test::FakePython;

TEST_CASE("classes of one name are of as many rows as there are modules that define one") {
  for (unsigned minor = 10; minor <= 14; ++minor) {
    FakePython python(minor);
    // In front of an instance, and it with what is behind.
    const uint64_t header = minor < 11 ? 16 : 32;
    const uint64_t slot = header + 16 + (minor < 13 ? 0 : 8 + 6 * 8 + 8);
    const auto add = [&](const std::string& module, const std::string& qualified) {
      const uint64_t type = python.add_class("Order");
      if (!module.empty()) python.set_place(type, module, qualified);
      const uint64_t pool = python.add_pool(slot, 2);
      for (uint64_t i = 0; i < 2; ++i) {
        const uint64_t at = python.block(pool, slot, i) + header;
        python.put(at, 1);
        python.put(at + 8, type);
        if (minor >= 13) python.put(at + 16, 6);
      }
      return type;
    };
    add("shop.models", "Order");
    add("depot", "make.<locals>.Order");
    add("__main__", "Shop.Order");
    add("", "");
    // What is no str is no module's name.
    const uint64_t other = add("", "");
    python.put(python.set_place(other, "made", "Order"), FakePython::kTypes);
    const RuntimeModel model = python.walk();
    CAPTURE(minor);
    REQUIRE(model.runtimes[0].why_not == "");
    for (const char* const name :
         {"shop.models.Order", "depot.make.<locals>.Order", "Shop.Order"}) {
      CAPTURE(name);
      REQUIRE(test::find_class(model, name) != nullptr);
      CHECK(test::find_class(model, name)->count == 2);
    }
    REQUIRE(test::find_class(model, "Order") != nullptr);
    CHECK(test::find_class(model, "Order")->count == 4);
  }
}

TEST_CASE("a class of the program's that is called like a type of the interpreter's is its own") {
  for (const char* const name : {"set", "frozenset", "bytearray", "frame", "generator", "tuple"}) {
    FakePython python(11);
    const uint64_t header = 32;
    const uint64_t slot = header + 16;
    const uint64_t type = python.add_class(name);
    const uint64_t pool = python.add_pool(slot, 3);
    for (uint64_t i = 0; i < 3; ++i) {
      const uint64_t at = python.block(pool, slot, i) + header;
      python.put(at, 1);
      python.put(at + 8, type);
    }
    const RuntimeModel model = python.walk();
    CAPTURE(name);
    REQUIRE(model.runtimes[0].why_not == "");
    REQUIRE(test::find_class(model, name) != nullptr);
    CHECK(test::find_class(model, name)->count == 3);
  }
}

TEST_CASE("of the main module, only such a class is called with its module") {
  FakePython python(11);
  const uint64_t slot = 48;
  for (const char* const name : {"list", "Basket"}) {
    const uint64_t type = python.add_class(name);
    python.set_place(type, "__main__", name);
    const uint64_t pool = python.add_pool(slot, 3);
    for (uint64_t i = 0; i < 3; ++i) {
      const uint64_t at = python.block(pool, slot, i) + 32;
      python.put(at, 1);
      python.put(at + 8, type);
    }
  }
  const RuntimeModel model = python.walk();
  REQUIRE(model.runtimes[0].why_not == "");
  for (const char* const name : {"__main__.list", "Basket"}) {
    CAPTURE(name);
    REQUIRE(test::find_class(model, name) != nullptr);
    CHECK(test::find_class(model, name)->count == 3);
  }
}
