#include "references/thread_stacks.h"

#include <doctest/doctest.h>

#include "fake_pthreads.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

constexpr Address kStacks{0x7f0000000000};
constexpr uint64_t kStackSize = 0x10000;
constexpr Address kHeads{0x7f0000201000};
constexpr Address kMain{0x7f0000100740};

AddressRange numbered_stack(int number) {
  const Address begin = kStacks + static_cast<uint64_t>(number) * kStackSize;
  return {begin, begin + kStackSize};
}

// Four stacks that the kernel has merged, the first thread, and ld.so's data.
struct StackFixture {
  FakeTarget target{Machine::kX86_64};
  FakePthreads threads{target};

  StackFixture() {
    target.map("7f0000000000-7f0000040000 rw-p 00000000 00:00 0");
    target.map("7f0000100000-7f0000103000 rw-p 00000000 00:00 0");
    target.map("7f0000200000-7f0000202000 rw-p 00000000 08:01 9 /lib/ld.so");
    target.map("7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]");
    threads.put_block(kMain, 1);
    threads.run(1, kMain, Address(0x7ffc00018000));
  }
};

}  // namespace

TEST_CASE("stacks that are merged into one mapping are told apart by their control blocks") {
  StackFixture fixture;
  const Address low = fixture.threads.add(numbered_stack(0), 11);
  const Address high = fixture.threads.add(numbered_stack(1), 12);
  fixture.threads.run(12, high, numbered_stack(1).begin + 0x8000);
  fixture.threads.run(11, low, numbered_stack(0).begin + 0x4000);
  const ThreadStacks found = find_thread_stacks(fixture.target);
  REQUIRE(found.stacks.size() == 3);
  CHECK(found.stacks[0] ==
        ThreadStack{11,
                    low,
                    numbered_stack(0),
                    {numbered_stack(0).begin + 0x4000 - 128, numbered_stack(0).end}});
  CHECK(found.stacks[1] ==
        ThreadStack{12,
                    high,
                    numbered_stack(1),
                    {numbered_stack(1).begin + 0x8000 - 128, numbered_stack(1).end}});
  CHECK(found.stacks[2].tid == 1);
  CHECK(found.stacks[2].range == AddressRange{Address(0x7ffc00000000), Address(0x7ffc00021000)});
  CHECK(found.stacks[2].live.begin == Address(0x7ffc00018000) - 128);
  CHECK(found.dead.empty());
}

TEST_CASE("a stack whose thread runs elsewhere is live as a whole") {
  StackFixture fixture;
  const Address block = fixture.threads.add(numbered_stack(2), 11);
  fixture.threads.run(11, block, Address(0x7f0000102800));
  const ThreadStacks found = find_thread_stacks(fixture.target);
  REQUIRE(found.stacks.size() == 2);
  CHECK(found.stacks[0].range == numbered_stack(2));
  CHECK(found.stacks[0].live == numbered_stack(2));
}

TEST_CASE("two stack pointers in one stack: the lower one counts") {
  StackFixture fixture;
  const Address block = fixture.threads.add(numbered_stack(0), 11);
  fixture.threads.run(11, block, numbered_stack(0).begin + 0x9000);
  fixture.threads.run(12, Address(), numbered_stack(0).begin + 0x5000);
  const ThreadStacks found = find_thread_stacks(fixture.target);
  CHECK(found.stacks.at(0).live.begin == numbered_stack(0).begin + 0x5000 - 128);
}

TEST_CASE("a signal handler's stack in a frame: what called it lies below, and counts") {
  StackFixture fixture;
  const Address block = fixture.threads.add(numbered_stack(0), 11);
  const Address handler = numbered_stack(0).begin + 0x9000;
  const Address interrupted = numbered_stack(0).begin + 0x5000;
  fixture.threads.run(11, block, handler);
  const ThreadFrames frames{11, {{handler, Address(0x401000)}, {interrupted, Address(0x402000)}}};
  const ThreadStacks found = find_thread_stacks(fixture.target, {&frames, 1});
  CHECK(found.stacks.at(0).live.begin == interrupted - 128);
}

TEST_CASE("a stack pointer at the very begin of a stack") {
  StackFixture fixture;
  const Address block = fixture.threads.add(numbered_stack(0), 11);
  fixture.threads.run(11, block, numbered_stack(0).begin + 8);
  const ThreadStacks found = find_thread_stacks(fixture.target);
  CHECK(found.stacks.at(0).live == numbered_stack(0));
}

TEST_CASE(
    "stacks of ended threads are dead, but for the dtv or, before pthread_join, the control "
    "block") {
  StackFixture fixture;
  FakePthreads& threads = fixture.threads;
  const Address running = threads.add(numbered_stack(0), 11);
  const Address joined = threads.add(numbered_stack(1), -1);
  const Address unjoined = threads.add(numbered_stack(2), 0);
  const Address detached = threads.add(numbered_stack(3), 0);
  fixture.target.put_word(detached + FakePthreads::kJoinId, detached.value());
  threads.run(11, running, numbered_stack(0).begin + 0x8000);
  threads.link(kHeads, {running, unjoined});      // stacks in use
  threads.link(kHeads + 16, {kMain});             // stacks of the program's own
  threads.link(kHeads + 32, {joined, detached});  // to be used again
  const ThreadStacks found = find_thread_stacks(fixture.target);
  const std::vector<AddressRange> expected = {{numbered_stack(1).begin, joined},
                                              {joined + 16, numbered_stack(1).end},
                                              {numbered_stack(2).begin, unjoined},
                                              {numbered_stack(3).begin, detached},
                                              {detached + 16, numbered_stack(3).end}};
  CHECK(found.dead == expected);

  SUBCASE("unless one of them cannot be told to live") {
    fixture.target.editable_threads().push_back({13, "", std::nullopt});
    CHECK(find_thread_stacks(fixture.target).dead.empty());
  }
  SUBCASE("unless a thread is on it") {
    threads.run(13, Address(), numbered_stack(1).begin + 0x100);
    CHECK(find_thread_stacks(fixture.target).dead.size() == 3);
  }
  SUBCASE("unless links do not lead back") {
    fixture.target.put_word(joined + FakePthreads::kList + 8, 0x1234);
    const std::vector<AddressRange> rest = {{numbered_stack(2).begin, unjoined}};
    CHECK(find_thread_stacks(fixture.target).dead == rest);
  }
  SUBCASE("unless a ring has two heads") {
    threads.link(kHeads + 64, {});
    fixture.target.put_word(kHeads + 32, (kHeads + 64).value());
    fixture.target.put_word(kHeads + 64 + 8, (kHeads + 32).value());
    fixture.target.put_word(kHeads + 64, (joined + FakePthreads::kList).value());
    fixture.target.put_word(joined + FakePthreads::kList + 8, (kHeads + 64).value());
    const std::vector<AddressRange> rest = {{numbered_stack(2).begin, unjoined}};
    CHECK(find_thread_stacks(fixture.target).dead == rest);
  }
}

TEST_CASE("a control block that gives impossible stacks") {
  StackFixture fixture;
  const Address block = fixture.threads.add(numbered_stack(1), 11);
  fixture.threads.run(11, block, numbered_stack(1).begin + 0x8000);
  const Address begin_field = block + FakePthreads::kStackBlock;
  const auto set = [&](uint64_t begin, uint64_t size) {
    fixture.target.put_word(begin_field, begin);
    fixture.target.put_word(begin_field + 8, size);
  };
  // As of another C library: from the begin of the mapping to the end of the control block's page.
  const AddressRange guess{kStacks, numbered_stack(1).end};
  for (const auto& odd : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, UINT64_MAX},
           {0, numbered_stack(1).end.value()},
           {numbered_stack(1).begin.value(), 16},
           {block.value() + 0x1000, 0x1000},
           {numbered_stack(1).begin.value(), uint64_t{1} << 40}}) {
    CAPTURE(odd.first);
    CAPTURE(odd.second);
    set(odd.first, odd.second);
    const ThreadStacks found = find_thread_stacks(fixture.target);
    REQUIRE(found.stacks.size() == 2);
    CHECK(found.stacks[0].range == guess);
    CHECK(found.stacks[0].live.begin == numbered_stack(1).begin + 0x8000 - 128);
  }
}

TEST_CASE("stacks that are only guessed at end where the one below them does") {
  StackFixture fixture;
  fixture.threads.run(11, numbered_stack(0).end - 0x900, numbered_stack(0).begin + 0x8000);
  fixture.threads.run(12, numbered_stack(1).end - 0x900, numbered_stack(1).begin + 0x8000);
  const ThreadStacks found = find_thread_stacks(fixture.target);
  REQUIRE(found.stacks.size() == 3);
  CHECK(found.stacks[0].range == numbered_stack(0));
  CHECK(found.stacks[1].range == numbered_stack(1));
}

TEST_CASE("threads whose memory cannot be read") {
  FakeTarget target(Machine::kX86_64);
  FakePthreads threads(target);
  threads.run(1, Address(0x1000), Address(0x2000));
  threads.run(2, Address(UINT64_MAX - 8), Address(UINT64_MAX));
  threads.run(3, Address(), Address());
  const ThreadStacks found = find_thread_stacks(target);
  CHECK(found.stacks.empty());
  CHECK(found.dead.empty());
}
