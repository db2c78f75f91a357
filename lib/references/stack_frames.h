// The frames on the stacks of a target's threads: which function's frame a word lies in.
//
//   stack pointer ─► | frame of f | frame of main | _start |        addresses grow to the right
//                    ^ frames[0]  ^ frames[1]
//
// Unwinds by .eh_frame, and by frame pointers where there is none. What it reads is the target's:
// each step is bounded, and so is their number.
#pragma once

#include <cstdint>
#include <vector>

#include "base/address.h"
#include "references/loaded_modules.h"
#include "target/target.h"

namespace heapsnap {

struct StackFrame {
  Address begin;  // the stack pointer in it: it reaches up to the next frame's begin
  Address code;   // an address within the instruction that it is at
  bool operator==(const StackFrame&) const = default;
};

struct ThreadFrames {
  int32_t tid = 0;
  std::vector<StackFrame> frames;  // innermost first, so mostly ascending (signal stacks are not)
};

struct UnwindLimits {
  size_t frames_per_thread = 4096;
  size_t frames = 1 << 20;  // of all threads
};

// One entry for each thread with registers. Needs the target's memory; names come later
// (root_names.h).
std::vector<ThreadFrames> unwind_stacks(Target& target, const LoadedModules& modules,
                                        const UnwindLimits& limits = {});

}  // namespace heapsnap
