// One heapsnap at a time changes a process.
//
// The lock is one of flock(2) on /proc/PID/mem, which the kernel ties to the open file: it ends
// with its holder, however that ends. Only who may trace the process can open this file, so nobody
// else can keep heapsnap from it. Mount, network and user namespaces do not matter as long as both
// see the process in the same /proc; a container's own /proc is another, and there the one does not
// know of the other.
#pragma once

#include <chrono>

#include "base/unique_fd.h"
#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

class TargetLock {
 public:
  // Longer than another heapsnap waits for what it does in a process.
  static constexpr std::chrono::seconds kPatience{90};

  // Waits until whoever has it lets go. Throws Error{kUnsupported} naming the holder when that
  // takes longer than `patience`, and TargetRefusal.
  TargetLock(const ProcFs& proc, int pid, std::chrono::milliseconds patience = kPatience);

 private:
  UniqueFd memory_;
};

}  // namespace heapsnap
