#include "references/stack_frames.h"

#include <doctest/doctest.h>

#include "fake_module.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

constexpr Address kCode{0x7f0000300000};
constexpr Address kStackBegin{0x7ffc00000000};

// A thread in a module without unwind tables, with a chain of frame pointers.
struct FrameFixture {
  FakeTarget target{Machine::kX86_64};

  FrameFixture() {
    FakeModule().load(target, kCode, "/bin/shop");
    target.map("7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]");
    Registers registers{kCode + 0x110, kStackBegin + 0x1000, Address()};
    registers.general.values[6] = (kStackBegin + 0x1040).value();
    registers.general.values[7] = registers.stack_pointer.value();
    registers.general.are_known = true;
    target.editable_threads().push_back({9, "", registers});
  }
  // What a function pushes first: its caller's frame pointer, below the return address.
  void put_frame(Address at, Address caller, Address return_address) {
    target.put_word(at, caller.value());
    target.put_word(at + 8, return_address.value());
  }
  std::vector<StackFrame> unwind(const UnwindLimits& limits = {}) {
    const auto stacks = unwind_stacks(target, LoadedModules(target), limits);
    REQUIRE(stacks.size() == 1);
    CHECK(stacks[0].tid == 9);
    return stacks[0].frames;
  }
};

}  // namespace

TEST_CASE("by frame pointers where there are no tables") {
  FrameFixture fixture;
  fixture.put_frame(kStackBegin + 0x1040, kStackBegin + 0x1080, kCode + 0x210);
  fixture.put_frame(kStackBegin + 0x1080, Address(), kCode + 0x310);
  const auto frames = fixture.unwind();
  REQUIRE(frames.size() >= 3);
  CHECK(frames[0] == StackFrame{kStackBegin + 0x1000, kCode + 0x110});
  CHECK(frames[1] == StackFrame{kStackBegin + 0x1050, kCode + 0x20f});
  CHECK(frames[2] == StackFrame{kStackBegin + 0x1090, kCode + 0x30f});
}

TEST_CASE("frames without end are followed to the limits") {
  FrameFixture fixture;
  for (uint64_t at = 0x1040; at < 0x20000; at += 0x20) {
    fixture.put_frame(kStackBegin + at, kStackBegin + at + 0x20, kCode + 0x210);
  }
  CHECK(fixture.unwind().size() > 1000);
  CHECK(fixture.unwind({10, 1000}).size() == 10);
  CHECK(fixture.unwind({1000, 20}).size() == 20);
}

TEST_CASE("a frame that is its own caller") {
  FrameFixture fixture;
  fixture.put_frame(kStackBegin + 0x1040, kStackBegin + 0x1040, kCode + 0x110);
  CHECK(fixture.unwind({100, 100}).size() <= 100);
}

TEST_CASE("a thread of which little is known has its innermost frame") {
  FrameFixture fixture;
  Registers& registers = *fixture.target.editable_threads()[0].registers;
  SUBCASE("no general registers") {
    registers.general.are_known = false;
  }
  SUBCASE("code that is in no module") {
    registers.instruction_pointer = Address(0x10);
  }
  SUBCASE("a stack that cannot be read") {
    registers.stack_pointer = Address(0x20);
    registers.general.values[6] = registers.general.values[7] = 0x20;
  }
  const auto frames = fixture.unwind();
  REQUIRE(frames.size() == 1);
  CHECK(frames[0] == StackFrame{registers.stack_pointer, registers.instruction_pointer});
}

TEST_CASE("no modules, no threads") {
  FakeTarget target(Machine::kX86_64);
  CHECK(unwind_stacks(target, LoadedModules(target)).empty());
  target.add_thread(1, Address(0x1000), Address(0x2000));
  const auto stacks = unwind_stacks(target, LoadedModules(target));
  REQUIRE(stacks.size() == 1);
  CHECK(stacks[0].frames.size() == 1);
  target.editable_threads()[0].registers.reset();
  CHECK(unwind_stacks(target, LoadedModules(target)).empty());
}
