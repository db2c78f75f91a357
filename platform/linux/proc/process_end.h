// Waiting for the end of a process that is not our child.
//
// By pidfd_open(2), which holds on to this very process even when its pid is given to another one.
// Before Linux 5.3 by looking at its start time.
#pragma once

#include <chrono>

#include "base/unique_fd.h"
#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

// pidfd_open(2); closed where that is refused or the kernel does not have it.
UniqueFd open_pidfd(int pid);

class ProcessEnd {
 public:
  // Throws TargetRefusal when there is no such process.
  ProcessEnd(const ProcFs& proc, int pid);

  // Whether all its threads have ended, reaped or not.
  bool has_come() const;
  // Waits for that until `deadline` at most, and says whether it has come.
  bool wait_until(std::chrono::steady_clock::time_point deadline) const;

 private:
  bool poll(std::chrono::milliseconds patience) const;

  ProcFs proc_;
  int pid_;
  uint64_t start_time_ticks_;
  UniqueFd process_;  // closed where the kernel has none
};

}  // namespace heapsnap
