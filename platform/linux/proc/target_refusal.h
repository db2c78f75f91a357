// The kernel's refusal to let heapsnap look at or trace a process, with the errno that it reported.
//
// tools/doctor finds out why, once nothing in the target is held any more.
#pragma once

#include "base/error.h"

namespace heapsnap {

// What to do where a process has ended, or is another program now.
inline constexpr const char* kFindSuccessor =
    "find its successor: ps -eo pid,lstart,comm --sort=-start_time | head";

class TargetRefusal : public Error {
 public:
  // `error_number`: ESRCH, EPERM, EACCES, ENOENT or another errno of ptrace(2), of
  // process_vm_readv(2) or of opening a file of /proc/PID.
  TargetRefusal(int pid, int error_number);

  int pid() const { return pid_; }
  int error_number() const { return error_number_; }

 private:
  int pid_;
  int error_number_;
};

}  // namespace heapsnap
