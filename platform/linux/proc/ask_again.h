// /proc is asked by the tid of a thread that lives. It may end before the answer: to say that the
// process has ended would be wrong while others of its threads live.
#pragma once

#include "base/error.h"
#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

// Gives what `work`, which looks at process `pid` and leaves nothing behind, gives. Where it throws
// Error{kNoProcess} and the process lives, it is done again, a few times.
template <typename Work>
auto ask_again(const ProcFs& proc, int pid, const Work& work) {
  constexpr int kMostTimes = 10;
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
