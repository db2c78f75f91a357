// Lets one heapsnap at a time work in a process: attach to it, or change it.
//
// The lock is an flock(2) on /proc/PID/mem, which the kernel ties to the open file: it ends with
// its holder, however that ends. Only processes that may trace the target can open this file, so no
// others can lock heapsnap out. Mount, network and user namespaces do not matter as long as both
// see the process in the same /proc; a container's own /proc is a different one, and there the two
// do not know of each other.
#pragma once

#include <chrono>

#include "base/unique_fd.h"
#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

class TargetLock {
 public:
  // Longer than another heapsnap waits for its work in a process.
  static constexpr std::chrono::seconds kPatience{90};

  // Waits until the holder releases it. Throws Error{kUnsupported} naming the holder if that takes
  // longer than `patience`, and TargetRefusal.
  TargetLock(const ProcFs& proc, int pid, std::chrono::milliseconds patience = kPatience);

 private:
  UniqueFd memory_;
};

}  // namespace heapsnap
