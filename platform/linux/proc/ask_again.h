// /proc is read by the tid of a live thread. If that thread exits before the read, it would be
// wrong to say that the process has ended while other threads are alive.
#pragma once

#include "base/error.h"
#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

// Returns what `work` returns, which looks at process `pid` and has no side effects. If it throws
// Error{kNoProcess} while the process is alive, it is retried.
template <typename Work>
auto ask_again(const ProcFs& proc, int pid, const Work& work) {
  constexpr int kMostTimes = 100;  // where each thread lives for microseconds, one in two may fail
  for (int times = 1;; ++times) {
    try {
      return work();
    } catch (const Error& error) {
      const bool may_be_wrong = error.kind() == ErrorKind::kNoProcess && times < kMostTimes;
      if (!may_be_wrong || !proc.live_tid(pid)) throw;
    }
  }
}

}  // namespace heapsnap
