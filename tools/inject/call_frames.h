// Who called whom on the stack of a stopped thread, for sure: by .eh_frame, as a C++ exception
// finds its way.
//
//   words of the stack     what a look at them alone tells
//   ------------------     -----------------------------------------------------------------
//   return address         of a call under way
//   a local variable       or of one that ended long ago, where nobody has written since
//   return address         ...
//
// The tables are read from the memory of the process; no file is opened. They are the target's, so
// nothing in them is trusted beyond what it says.
#pragma once

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "platform/linux/remote_call/stack_words.h"
#include "target/address_space.h"
#include "target/memory_reader.h"

namespace heapsnap {

class CallFrames {
 public:
  // `space` are the mappings of now; code that is mapped later is unknown. `memory` outlives it.
  CallFrames(const AddressSpace& space, MemoryReader& memory);
  CallFrames(const CallFrames&) = delete;
  CallFrames& operator=(const CallFrames&) = delete;
  ~CallFrames();

  struct Walk {
    // Of each frame, innermost first, an address within the instruction that it is at.
    std::vector<uint64_t> places{};
    // The stack pointer of the last of them, whose caller is not to be told; of the thread's first
    // function, which has none, the largest number.
    uint64_t reached = 0;
  };
  Walk walk(const user_regs_struct& registers, const StackWords& stack);

 private:
  struct Module;
  struct Frame;
  const Module* module_of(uint64_t place);
  bool step_out(Frame& frame, const StackWords& stack);
  bool leave_signal_frame(Frame& frame, const StackWords& stack) const;
  std::optional<uint64_t> word_at(uint64_t address, const StackWords& stack) const;

  AddressSpace space_;
  MemoryReader& memory_;
  std::vector<std::unique_ptr<Module>> modules_;
};

// Whether `address` is that of the code by which the kernel is asked to end a signal handler.
bool is_signal_return(MemoryReader& memory, uint64_t address);

}  // namespace heapsnap
