#include "runtime/python/python_leftovers.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/runtime/fake_python.h"

using namespace heapsnap;
using test::FakePython;

TEST_CASE("what an interpreter keeps for reuse holds nothing, and neither do places behind") {
  for (const unsigned minor : {10U, 11U, 12U, 13U}) {
    FakePython python(minor);
    const PythonLayout& layout = python.layout;
    const uint64_t dict =
        python.add_type("dict", python.object_type, 48, 0, FakePython::kCollected | 1 << 29);
    const uint64_t tuple =
        python.add_type("tuple", python.object_type, 24, 8, FakePython::kCollected);
    const uint64_t pool = python.add_pool(64, 6);
    const auto object = [&](uint64_t slot, uint64_t type, uint64_t references) {
      const uint64_t at = python.block(pool, 64, slot) + 16;
      python.put(at, references);
      python.put(at + 8, type);
      python.put(at + layout.dict_keys, python.block(pool, 64, 5));
      return at;
    };
    const uint64_t free = object(0, dict, 0);
    const uint64_t alive = object(1, dict, 1);
    const uint64_t first = object(2, tuple, 0);
    const uint64_t second = object(3, tuple, 0);
    const uint64_t other = object(4, dict, 0);  // in no list
    const uint64_t dicts = FakePython::kInterpreter + layout.free_dicts.array;
    python.put(dicts, free);
    python.put(dicts + 8, alive);
    python.put_int(FakePython::kInterpreter + layout.free_dicts.count, 1);
    python.put(FakePython::kInterpreter + layout.free_tuples.first + 2 * 8, first);
    python.put(first + layout.free_tuples.next, second);
    python.put(second + layout.free_tuples.next, 0);
    python.walk();
    const SlotMap& slots = python.objects.slots;
    CHECK(slots.class_of(0).name == "dict (free)");
    CHECK(slots.class_of(0).skip == ObjectClass::kNoReferences);
    CHECK(slots.class_of(0).object_at == 16);
    CHECK(slots.class_of(1).name == "dict");
    CHECK(slots.class_of(2).name == "tuple (free)");
    CHECK_FALSE(slots.class_of(2).skips((16 + layout.free_tuples.next) / 8));
    CHECK(slots.class_of(2).is_exact);
    CHECK(slots.class_of(2).skips((16 + layout.free_tuples.next) / 8 + 1));
    CHECK(slots.class_of(3).name == "tuple (free)");
    CHECK(slots.class_of(4).name.empty());
    CHECK(other != 0);
    const AddressRange behind{Address(dicts + 8), Address(dicts) + layout.free_dicts.capacity * 8};
    const auto& unused = python.objects.unused;
    CHECK(std::find(unused.begin(), unused.end(), behind) != unused.end());
    const Address cache = Address(FakePython::kInterpreter) + layout.type_cache.begin;
    const AddressRange cached{cache + 4095 * 24 + 16, cache + 4096 * 24};  // the last value
    CHECK(std::find(unused.begin(), unused.end(), cached) != unused.end());
    // Where something else lies there, nothing is believed.
    python.put_int(FakePython::kInterpreter + layout.free_dicts.count, 81);
    python.walk();
    CHECK(slots.class_of(0).name.empty());
    CHECK(slots.class_of(2).name.empty());
    CHECK(std::find(unused.begin(), unused.end(), cached) == unused.end());
  }
}

TEST_CASE("lists of free objects since 3.14 are as long as they say, or none") {
  FakePython python(14);
  const PythonLayout& layout = python.layout;
  const uint64_t dict =
      python.add_type("dict", python.object_type, 48, 0, FakePython::kCollected | 1 << 29);
  const uint64_t number = python.add_type("float", python.object_type, 24, 0, FakePython::kReady);
  const uint64_t dicts = python.add_pool(64, 3);
  const uint64_t numbers = python.add_pool(32, 2);
  const auto put_free = [&](uint64_t at, uint64_t type, uint64_t next) {
    python.put(at, next);
    python.put(at + 8, type);
    return at;
  };
  const uint64_t alive = put_free(python.block(dicts, 64, 2) + 16, dict, 1);
  python.put(alive + layout.dict_keys, python.block(dicts, 64, 0));
  const uint64_t second = put_free(python.block(dicts, 64, 1) + 16, dict, 0);
  const uint64_t first = put_free(python.block(dicts, 64, 0) + 16, dict, second);
  // Lists of tuples come first; the last one is that of dicts.
  const uint64_t chain = FakePython::kInterpreter + layout.chained_containers.first + 23 * 16;
  python.put(chain, first);
  python.put(chain + 8, 2);
  const uint64_t last = put_free(python.block(numbers, 32, 1), number, 0);
  python.put(FakePython::kInterpreter + layout.chained_numbers.first,
             put_free(python.block(numbers, 32, 0), number, last));
  python.put(FakePython::kInterpreter + layout.chained_numbers.first + 8, 2);
  const auto name = [&](uint32_t slot) { return python.objects.slots.class_of(slot).name; };
  python.walk();
  CHECK(name(0) == "dict (free)");
  CHECK(name(1) == "dict (free)");
  CHECK(name(2) == "dict");
  CHECK_FALSE(python.objects.slots.class_of(0).skips(2));
  CHECK(python.objects.slots.class_of(0).skips(2 + layout.dict_keys / 8));
  CHECK(name(3) == "float (free)");
  CHECK_FALSE(python.objects.slots.class_of(3).skips(0));
  CHECK(python.objects.slots.class_of(3).skips(2));
  for (const uint64_t count : {1U, 3U}) {
    python.put(chain + 8, count);
    python.walk();
    CHECK(name(0).empty());
    CHECK(name(3) == "float (free)");
  }
}
