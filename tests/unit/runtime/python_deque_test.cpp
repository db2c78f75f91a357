#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/unit/runtime/fake_python.h"

using namespace heapsnap;
using test::FakePython;

TEST_CASE("a deque whose blocks are a ring has as many as there are") {
  FakePython python(12);
  const uint64_t deque =
      python.add_type("collections.deque", python.object_type, 216, 0, FakePython::kCollected);
  constexpr uint64_t kSlots = 64;
  const uint64_t pool = python.add_pool(240, kSlots);
  constexpr uint64_t kBlock = 0x27d000;
  constexpr uint64_t kItems = uint64_t{1} << 39;
  python.put(kBlock + PythonDeque::kNext, kBlock);
  for (uint64_t i = 0; i < kSlots; ++i) {
    const uint64_t at = python.block(pool, 240, i) + 16;
    python.put(at, 1);
    python.put(at + 8, deque);
    python.put(at + 16, kItems);
    python.put(at + PythonDeque::kFirstBlock, kBlock);
    python.put(at + PythonDeque::kLastBlock, kBlock);
    python.put(at + PythonDeque::kFirstIndex, 0);
    python.put(at + PythonDeque::kLastIndex,
               (kItems + PythonDeque::kItems - 1) % PythonDeque::kItems);
  }
  python.walk();  // and ends
  CHECK(python.objects.slots.size() == kSlots);
}

TEST_CASE("what lies around the items of a deque is left over") {
  for (const unsigned minor : {10U, 12U}) {
    FakePython python(minor);
    const bool keeps_blocks = minor > 10;
    const uint64_t deque = python.add_type("collections.deque", python.object_type,
                                           keeps_blocks ? 216 : 80, 0, FakePython::kCollected);
    const uint64_t slot = keeps_blocks ? 240 : 96;
    const uint64_t pool = python.add_pool(slot, 1);
    const uint64_t block = python.block(pool, slot, 0);
    const uint64_t at = block + 16;
    constexpr uint64_t kFirst = 0x27d000, kLast = 0x27d400, kKept = 0x27d800;
    python.put(at, 1);
    python.put(at + 8, deque);
    python.put(at + 24, kFirst);
    python.put(at + 32, kLast);
    python.put(at + 40, 60);  // the first item's number in its block
    python.put(at + 48, 2);   // the last one's
    python.put(at + 16, 7);
    python.put(kFirst + 65 * 8, kLast);
    if (keeps_blocks) {
      python.put(at + 72, 1);
      python.put(at + 80, kKept);
    }
    const RuntimeModel model = python.walk();
    const uint64_t blocks = keeps_blocks ? 3 : 2;
    const RuntimeClass* const row = test::find_class(model, "collections.deque");
    REQUIRE(row != nullptr);
    CHECK(row->owned_bytes == blocks * 66 * 8);
    CHECK(row->malloc_bytes == blocks * 66 * 8);
    for (const uint64_t one : {kFirst, kLast}) {
      CHECK(test::kind_of_buffer(python.objects, one) == "deque block");
    }
    using LeftOver = RuntimeObjects::LeftOver;
    std::vector<std::array<uint64_t, 3>> found;
    for (const LeftOver& one : python.objects.left_over) {
      found.push_back({one.in.value(), one.from, one.to});
    }
    std::vector<std::array<uint64_t, 3>> expected = {{kFirst, 0, 8 + 60 * 8},
                                                     {kLast, 8 + 3 * 8, LeftOver::kToEnd}};
    if (keeps_blocks) {
      expected.push_back({block, 16 + 88, 16 + 80 + 16 * 8});
      expected.push_back({kKept, 0, LeftOver::kToEnd});
    }
    for (const auto& one : expected) {
      CHECK(std::find(found.begin(), found.end(), one) != found.end());
    }
    // Where it says nonsense, nothing is left out.
    python.put(at + 48, 64);
    CHECK(test::find_class(python.walk(), "collections.deque")->owned_bytes == 0);
    CHECK(std::none_of(python.objects.left_over.begin(), python.objects.left_over.end(),
                       [](const LeftOver& one) { return one.in == Address(kFirst); }));
  }
}
