// Code of the C library in which the only thread of a process may not stand while the library is
// told that there are more: what was begun there without a lock would go on without one.
//
//   malloc and its hooks, pthread_create, the loader   change what a second thread changes too
//   brk and sbrk                                       the same, and never take a lock
//   fork, with all that runs in its handlers           copies what the second has half changed, and
//                                                      does not put right the locks in the copy
//
// A thread is outside when no word on its stack is a return address into that code: whoever is
// inside, be it in a signal handler or in a handler of fork, has to return there. Where such a
// word is found, the frames tell whether the call is still under way (call_frames.h), and where
// they do not reach it, it counts as one that is.
#pragma once

#include <sys/user.h>

#include <vector>

#include "base/address.h"
#include "target/address_space.h"
#include "target/memory_reader.h"
#include "tools/inject/call_frames.h"

namespace heapsnap {

class DelicateCode {
 public:
  // As CallFrames.
  DelicateCode(const AddressSpace& space, MemoryReader& memory)
      : space_(space), memory_(memory), frames_(space, memory) {}

  void add(const AddressRange& code);
  bool contains(uint64_t address) const;

  // Whether a stopped thread with these registers is inside, or may be.
  bool may_hold(const user_regs_struct& registers);

 private:
  bool is_suspicious(const StackWords& stack, size_t index) const;

  AddressSpace space_;
  MemoryReader& memory_;
  CallFrames frames_;
  std::vector<AddressRange> code_;
};

}  // namespace heapsnap
