#include "runtime/python/python_buffers.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/runtime/fake_python.h"

using namespace heapsnap;
using test::FakePython;

namespace {

constexpr uint64_t kBuffer = 0x27d000;
constexpr uint64_t kElsewhere = 0xdead0000;  // no memory

// One object of a type in a slot of its own.
struct One {
  One(const std::string& type_name, uint64_t size, uint64_t flags = FakePython::kReady)
      : name(type_name), slot(size + (flags == FakePython::kReady ? 0 : 16)) {
    type = python.add_type(name, python.object_type, size, 0, flags);
    at = python.block(python.add_pool(slot, 1), slot, 0) + slot - size;
    python.put(at, 1);
    python.put(at + 8, type);
  }
  RuntimeClass row() {
    const RuntimeModel model = python.walk();
    const RuntimeClass* const found = test::find_class(model, name);
    REQUIRE(found != nullptr);
    CHECK(found->count == 1);
    return *found;
  }
  std::string kind() { return test::kind_of_buffer(python.objects, kBuffer); }

  FakePython python;
  std::string name;
  uint64_t slot = 0;
  uint64_t type = 0;
  uint64_t at = 0;
};

}  // namespace

TEST_CASE("an array owns as many numbers as there is room for, of the size of one") {
  One one("array.array", 64);
  constexpr uint64_t kDescription = 0x27c000;
  one.python.put(kDescription, uint64_t{8} << 32 | 'd');
  one.python.put(one.at + 16, 100);  // items
  one.python.put(one.at + 24, kBuffer);
  one.python.put(one.at + 32, 120);
  one.python.put(one.at + 40, kDescription);
  CHECK(one.row().owned_bytes == 120 * 8);
  CHECK(one.row().malloc_bytes == 120 * 8);
  CHECK(one.kind() == "array items");
  // What contradicts itself.
  const auto put_and_look = [&](uint64_t at, uint64_t value) {
    const uint64_t before = one.python.word(at);
    one.python.put(at, value);
    const uint64_t owned = one.row().owned_bytes;
    one.python.put(at, before);
    return owned;
  };
  CHECK(put_and_look(one.at + 16, 121) == 0);
  CHECK(put_and_look(one.at + 24, kElsewhere) == 0);
  CHECK(put_and_look(one.at + 24, kBuffer + 4) == 0);
  CHECK(put_and_look(one.at + 32, 1 << 20) == 0);
  CHECK(put_and_look(one.at + 40, kElsewhere) == 0);
  CHECK(put_and_look(kDescription, uint64_t{8} << 32 | '?') == 0);
  CHECK(put_and_look(kDescription, uint64_t{80} << 32 | 'd') == 0);
  CHECK(one.row().owned_bytes == 120 * 8);
  // Small ones are in a pool.
  one.python.put(one.at + 16, 1);
  one.python.put(one.at + 32, 2);
  CHECK(one.row().owned_bytes == 16);
  CHECK(one.row().malloc_bytes == 0);
}

TEST_CASE("an object of ctypes owns its bytes unless they are its own or another's") {
  One one("_ctypes._CData", 96);
  one.python.put(one.at + 16, kBuffer);
  one.python.put(one.at + 24, 1);
  one.python.put(one.at + 40, 2000);
  CHECK(one.row().owned_bytes == 2000);
  CHECK(one.kind() == "ctypes data");
  one.python.put(one.at + 24, 0);
  CHECK(one.row().owned_bytes == 0);
  one.python.put(one.at + 24, 1);
  one.python.put(one.at + 16, one.at + 80);
  one.python.put(one.at + 40, 8);
  CHECK(one.row().owned_bytes == 0);
}

TEST_CASE("a stream of characters and an open file own their buffers") {
  One text("_io.StringIO", 128);
  text.python.put(text.at + 16, kBuffer);
  text.python.put(text.at + 32, 200);
  text.python.put(text.at + 40, 250);
  CHECK(text.row().owned_bytes == 250 * 4);
  CHECK(text.kind() == "StringIO characters");
  text.python.put(text.at + 32, 251);
  CHECK(text.row().owned_bytes == 0);

  One file("_io.BufferedReader", 160, FakePython::kCollected);
  file.python.put(file.at + 56, kBuffer);
  file.python.put(file.at + 120, 4096);
  CHECK(file.row().owned_bytes == 4096);
  CHECK(file.kind() == "file buffer");
}

TEST_CASE("an OrderedDict owns a table of its nodes, and them, which lie in pools") {
  constexpr uint64_t kDict = FakePython::kCollected | 1 << 29;
  One one("collections.OrderedDict", 112, kDict);
  FakePython& python = one.python;
  const uint64_t nodes = python.add_pool(32, 3);
  for (uint64_t i = 0; i < 3; ++i) {
    python.put(python.block(nodes, 32, i) + 16, i < 2 ? python.block(nodes, 32, i + 1) : 0);
  }
  python.put(one.at + 16, 3);
  python.put(one.at + 48, python.block(nodes, 32, 0));
  python.put(one.at + 56, python.block(nodes, 32, 2));
  python.put(one.at + 64, kBuffer);
  python.put(one.at + 72, 128);
  const RuntimeClass row = one.row();
  CHECK(row.owned_bytes == 3 * 32 + 128 * 8);
  CHECK(row.malloc_bytes == 128 * 8);
  CHECK(one.kind() == "OrderedDict table");
  for (uint64_t i = 0; i < 3; ++i) {
    const uint64_t node = python.block(nodes, 32, i);
    CHECK(test::kind_of_buffer(python.objects, node) == "OrderedDict node");
    const auto slot = python.objects.slots.find(node);
    REQUIRE(slot);
    CHECK(python.objects.slots.class_of(slot->number).skips(1));
    CHECK_FALSE(python.objects.slots.class_of(slot->number).skips(0));
  }
}

TEST_CASE("behind the table of a set lies no reference") {
  FakePython python(11);
  const PythonLayout& layout = python.layout;
  const uint64_t set = python.add_type("set", python.object_type, 200, 0, FakePython::kCollected);
  constexpr uint64_t kTable = 0x270000;
  constexpr uint64_t kSlots = 128;
  const uint64_t sets = python.add_pool(224, 1);
  const uint64_t at = python.block(sets, 224, 0) + 16;
  python.put(at, 1);
  python.put(at + 8, set);
  python.put(at + layout.set_mask, kSlots - 1);
  python.put(at + layout.set_table, kTable);
  python.walk();
  const auto& left_over = python.objects.left_over;
  CHECK(std::any_of(left_over.begin(), left_over.end(), [&](const auto& one) {
    return one.in == Address(kTable) && one.from == kSlots * layout.set_entry;
  }));
}
