// One stack from .eh_frame as it stands, with all registers that functions keep: for the few that
// have a frame which no compiled row describes (hand-written assembly, a module that is just being
// compiled). Microseconds a stack.
#pragma once

#include <cstdint>

#include "tracker/stack_memory.h"

namespace heapsnap::tracker {

struct PlainFrame {
  uint64_t pc;
  uint32_t module;
};

// Unwinds from its own frame outwards; what lies inside of the frame whose stack pointer is
// `from_sp` is left out. Gives the number of frames written to `out` (at most `room`); `root`
// becomes the kRoot... that says why there are no more.
uint32_t slow_unwind(StackMemory& memory, uint64_t from_sp, PlainFrame* out, uint32_t room,
                     uint32_t& root);

}  // namespace heapsnap::tracker
