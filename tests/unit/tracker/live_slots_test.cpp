#include <doctest/doctest.h>

#include <initializer_list>

#include "tracker/stack_table.h"
#include "tracker/table_space.h"

using namespace heapsnap::tracker;

namespace {

void* address(uint64_t value) {
  return reinterpret_cast<void*>(value);
}

void need_stacks() {
  if (control.directory == nullptr) REQUIRE(create_tables(-1));
  if (stack_index == nullptr) REQUIRE(create_stack_table());
}

// A stack of these addresses, outermost first.
uint32_t put_stack(const std::initializer_list<uint64_t>& pcs, uint64_t hash,
                   uint32_t root = kRootComplete) {
  return insert_stack(
      hash, root, static_cast<uint32_t>(pcs.size()), 0,
      [](void* context, uint32_t i) {
        const auto& pcs = *static_cast<const std::initializer_list<uint64_t>*>(context);
        return PathFrame{pcs.begin()[i], 0, nullptr};
      },
      const_cast<std::initializer_list<uint64_t>*>(&pcs));
}

const StackNode& node(uint32_t id) {
  return entry<StackNode>(control.directory->nodes, id);
}

}  // namespace

TEST_CASE("slots of neighbours are two, over the borders of leaves") {
  need_stacks();
  constexpr uint64_t kLeaf = 1ULL << kLeafShift;
  const uint64_t places[] = {0x10, kLeaf - 16, kLeaf + 16, 0x7f0000000010,
                             (1ULL << kAddressBits) - 16};
  for (const uint64_t place : places) {
    CHECK(live_slot(address(place)) == nullptr);
  }
  for (const uint64_t place : places) {
    uint32_t* slot = make_live_slot(address(place));
    REQUIRE(slot != nullptr);
    CHECK(*slot == kEmptySlot);
    *slot = static_cast<uint32_t>(place >> 4) | 1;
  }
  for (const uint64_t place : places) {
    CHECK(*live_slot(address(place)) == (static_cast<uint32_t>(place >> 4) | 1));
  }
  CHECK(make_live_slot(address(0x1000)) + 1 == make_live_slot(address(0x1020)));
  CHECK(make_live_slot(address(1ULL << kAddressBits)) == nullptr);
  CHECK(live_slot(address(~0ULL - 15)) == nullptr);
}

TEST_CASE("a page that has recorded blocks says so, and one that shares its count does too") {
  void* const first = address(0x7f1234567010);
  void* const second = address(0x7f1234567ff0);
  void* const next_page = address(0x7f1234568000);
  void* const shares = address(0x7f1234567010 + (kPageCounts << kPageShift));
  raise_page_count(first);
  raise_page_count(second);
  CHECK(may_be_recorded(first));
  CHECK(may_be_recorded(shares));
  CHECK_FALSE(may_be_recorded(next_page));
  lower_page_count(second);
  CHECK(may_be_recorded(second));
  lower_page_count(first);
  CHECK_FALSE(may_be_recorded(first));
  lower_page_count(first);  // never below
  CHECK_FALSE(may_be_recorded(first));

  // More than can be counted: from then on it is not known.
  for (int i = 0; i < kPageCountUnknown + 10; ++i) raise_page_count(first);
  for (int i = 0; i < kPageCountUnknown + 10; ++i) lower_page_count(first);
  CHECK(may_be_recorded(first));
  CHECK_FALSE(may_be_recorded(next_page));
  expect_recorded_everywhere();
  lower_page_count(next_page);
  CHECK(may_be_recorded(next_page));
}

TEST_CASE("stacks share the nodes of their outer frames") {
  need_stacks();
  const uint64_t before = control.directory->nodes.count;
  const uint32_t a = put_stack({1, 2, 3}, 1001);
  const uint32_t b = put_stack({1, 2, 4}, 1002);
  const uint32_t cut = put_stack({1, 2, 3}, 1003, kRootDepthLimit);
  CHECK(control.directory->nodes.count == before + 3 + 1 + 3);
  CHECK(a != b);
  CHECK(find_stack(1001) == a);
  CHECK(find_stack(1002) == b);
  CHECK(find_stack(1003) == cut);
  CHECK(find_stack(1004) == kNoStack);
  CHECK(put_stack({1, 2, 3}, 1001) == a);  // known

  const auto& record = entry<StackRecord>(control.directory->stacks, a);
  CHECK(record.depth == 3);
  CHECK(node(record.node).return_address == 3);
  const uint32_t parent = node(record.node).parent;
  CHECK(parent < record.node);
  CHECK(node(parent).return_address == 2);
  CHECK(node(node(parent).parent).parent == kRootComplete);
}

TEST_CASE("the indexes grow with the stacks and lose none") {
  need_stacks();
  constexpr uint64_t kMany = 30000;
  uint32_t first = 0;
  for (uint64_t i = 0; i < kMany; ++i) {
    const uint32_t id = put_stack({7, 100000 + i % 300, 200000 + i}, (i + 1) * 0x9e3779b97f4a7c15);
    if (i == 0) first = id;
    REQUIRE(id == first + i);
  }
  for (uint64_t i = 0; i < kMany; ++i)
    REQUIRE(find_stack((i + 1) * 0x9e3779b97f4a7c15) == first + i);
}

TEST_CASE("a memory limit is kept, noted and counted") {
  need_stacks();
  Directory& directory = *control.directory;
  directory.memory_limit = directory.memory_used;
  const uint64_t dropped = directory.dropped_stacks;
  CHECK(map_working_memory(1 << 20) == nullptr);
  CHECK((directory.limits & kLimitMemory) != 0);
  uint64_t hash = 77;
  uint32_t id = 0;
  for (int i = 0; i < 200000 && id != kStackNotTaken; ++i) {
    hash += 0x9e3779b97f4a7c15;
    id = put_stack({hash}, hash);
  }
  CHECK(id == kStackNotTaken);
  CHECK(directory.dropped_stacks == dropped + 1);
  directory.memory_limit = 0;
  CHECK(put_stack({9, 9}, 999999) >= kFirstStack);
}
