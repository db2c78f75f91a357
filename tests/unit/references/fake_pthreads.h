// Stacks with control blocks as glibc keeps them, in a FakeTarget.
#pragma once

#include <vector>

#include "tests/unit/heap/fake_target.h"

namespace heapsnap::test {

// struct pthread of glibc 2.36 on x86-64.
class FakePthreads {
 public:
  static constexpr uint64_t kSize = 0x900;
  static constexpr uint64_t kList = 0x2c0;
  static constexpr uint64_t kTid = 0x2d0;
  static constexpr uint64_t kJoinId = 0x628;
  static constexpr uint64_t kStackBlock = 0x690;

  explicit FakePthreads(FakeTarget& target) : target_(target) {}

  // A control block at the top of `stack`.
  Address add(AddressRange stack, int32_t tid) {
    const Address block = stack.end - kSize;
    put_block(block, tid);
    target_.put_word(block + kStackBlock, stack.begin.value());
    target_.put_word(block + kStackBlock + 8, stack.size());
    return block;
  }
  // One without a stack of its own: the first thread's.
  void put_block(Address block, int32_t tid) {
    target_.put_word(block, block.value());
    target_.put_word(block + 16, block.value());
    target_.put(block + kTid, tid);
  }
  // Links control blocks to a ring with its head at `head`.
  void link(Address head, const std::vector<Address>& blocks) {
    std::vector<Address> ring = {head};
    for (const Address block : blocks) ring.push_back(block + kList);
    for (size_t i = 0; i < ring.size(); ++i) {
      const Address next = ring[(i + 1) % ring.size()];
      target_.put_word(ring[i], next.value());
      target_.put_word(next + 8, ring[i].value());
    }
  }
  // A thread that runs, with its stack pointer at `stack_pointer`.
  void run(int32_t tid, Address block, Address stack_pointer) {
    Registers registers;
    registers.stack_pointer = stack_pointer;
    registers.thread_pointer = block;
    target_.editable_threads().push_back({tid, "", registers});
  }

 private:
  FakeTarget& target_;
};

}  // namespace heapsnap::test
