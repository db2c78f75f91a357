// Changes instructions of a running process so that no thread ever executes half of a change.
//
// All threads stand while it is done, none of them inside of the instructions that are replaced:
// neither its instruction pointer nor a word on its stack (where a signal handler will return to)
// leads into them. Each patch is one write into one page, which the kernel makes as a
// whole. So at whatever moment heapsnap is killed, and its threads let go by the kernel, the
// program is a valid one: with all of the patches that were made by then, in the order given.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "base/address.h"
#include "platform/linux/proc/memory_writer.h"
#include "platform/linux/proc/proc_fs.h"
#include "target/memory_reader.h"

namespace heapsnap {

struct CodePatch {
  Address at;
  std::vector<std::byte> before;  // what must be there now
  std::vector<std::byte> after;   // as many bytes, in the same page
  // Instructions of which the patch replaces the beginning: no thread may stand behind their first
  // byte. Empty where a patch replaces one instruction by the bytes that were there before.
  AddressRange replaced;
};

struct PatchResult {
  size_t threads = 0;
  std::chrono::nanoseconds pause{};  // of the last stop, in which it was done
  size_t stops = 0;                  // 1, and one more for each time that a thread stood inside
};

// Applies all of `patches`. Throws Error{kUnsupported} when the bytes there are others, or a thread
// stands inside at every stop for 20 seconds; Error{kNoProcess} and refusals of ptrace as an attach
// does. After an error nothing was changed.
PatchResult apply_patches(const ProcFs& proc, int pid, const std::vector<CodePatch>& patches,
                          MemoryReader& memory);

}  // namespace heapsnap
