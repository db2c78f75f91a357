#include "tracking/live_slots.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/unit/tracking/synthetic_tracker.h"

using namespace heapsnap;

namespace {

std::vector<uint32_t> look_up(SyntheticTracker& made, const std::vector<Address>& blocks) {
  LiveSlots slots(made.target.memory(), made.target.residency(), made.target.address_space(),
                  made.directory);
  std::vector<uint32_t> found(blocks.size(), 0xdead);
  slots.look_up(blocks, found);
  return found;
}

}  // namespace

TEST_CASE("each block finds its own slot") {
  SyntheticTracker made;
  std::mt19937 random(1);
  std::vector<Address> blocks;
  std::vector<uint32_t> expected;
  for (Address at = SyntheticTracker::kHeap + 16; at < SyntheticTracker::kHeap + 500'000;) {
    blocks.push_back(at);
    const uint32_t stack = random() % 3 == 0 ? 0 : 2 + random() % 1000;
    const uint32_t slack = stack == 0 ? 0 : random() % 32;
    if (stack != 0) made.slot(at, stack, slack);
    expected.push_back(stack << tracker::kSlackBits | slack);
    at += 32 + random() % 40 * 16;
    if (random() % 100 == 0) at += 50'000;
  }
  made.finish();
  CHECK(look_up(made, blocks) == expected);
  CHECK(made.target.bytes_read() < 200'000);
}

TEST_CASE("blocks without a leaf, beyond the root and beyond the mapping have no stack") {
  SyntheticTracker made;
  const Address recorded = SyntheticTracker::kHeap + 0x10;
  made.slot(recorded, 5, 3);
  made.finish();
  const std::vector<Address> blocks = {
      Address(0x10),
      recorded,
      SyntheticTracker::kHeap + 0x3000000,  // no such page of slots
      Address(0x20000010),
      Address(0x7fff00000010),
      Address(~0xfULL)};
  CHECK(look_up(made, blocks) ==
        std::vector<uint32_t>{0, 5U << tracker::kSlackBits | 3, 0, 0, 0, 0});
}

TEST_CASE("a damaged root leads nowhere") {
  SyntheticTracker made;
  made.slot(SyntheticTracker::kHeap + 0x10, 5, 3);
  made.finish();
  SUBCASE("at the end of the address space") {
    made.directory.live_root = ~0ULL - 64;
  }
  SUBCASE("nowhere") {
    made.directory.live_root = 0;
  }
  SUBCASE("unreadable") {
    made.directory.live_root = 0x5000;
  }
  SUBCASE("a leaf that is not aligned") {
    made.target.put(Address(made.directory.live_root) + 4 * 8, uint64_t{0x7f0000000002});
  }
  CHECK(look_up(made, {SyntheticTracker::kHeap + 0x10}) == std::vector<uint32_t>{0});
}
