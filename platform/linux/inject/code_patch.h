// Changes instructions of a running process so that no thread ever executes half a change.
//
// All threads are stopped meanwhile, none of them inside the replaced instructions: neither its
// instruction pointer nor a word on its stack (where a signal handler will return to) points into
// them. Each patch is one write into one page, which the kernel makes as a whole. So whenever
// heapsnap is killed and the kernel resumes its tracees, the program is a valid one: with all the
// patches that were made by then, in the order given.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/address.h"
#include "platform/linux/proc/memory_writer.h"
#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/trace/tracee.h"
#include "target/memory_reader.h"

namespace heapsnap {

struct CodePatch {
  Address at;
  std::vector<std::byte> before;  // what must be there now
  std::vector<std::byte> after;   // as many bytes, in the same page
  // Instructions whose beginning the patch replaces: no thread may be stopped beyond their first
  // byte. Empty if a patch replaces one instruction by the bytes that were there before.
  AddressRange replaced;
};

struct PatchResult {
  size_t threads = 0;
  std::chrono::nanoseconds pause{};  // of the last stop, in which the patches were made
  size_t stops = 0;                  // 1, and one more for each time that a thread was inside
};

// Throws if a stopped thread may not execute the patched code.
using ThreadCheck = std::function<void(const Tracee&)>;

// Applies all of `patches`. Throws Error{kUnsupported} if other bytes are there, or if a thread is
// inside at every stop for 20 seconds; Error{kNoProcess} and refusals of ptrace as an attach does;
// and what `check` throws. After an error nothing has changed.
PatchResult apply_patches(const ProcFs& proc, int pid, const std::vector<CodePatch>& patches,
                          MemoryReader& memory, const ThreadCheck& check = {});

}  // namespace heapsnap
