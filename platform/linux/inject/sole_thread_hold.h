// How long the only thread of a process stays stopped while heapsnap's threads work in it.
//
// sbrk(2) of glibc takes no lock: two threads that call it at once get the same memory, and malloc
// calls it for main_arena. A program with one thread may call it beside malloc and expects no other
// caller. So its thread, which was found outside of both, does not run until ours are gone.
//
// They may wait for something that it would give: a lock, or a page or a file that the process
// itself serves. If they do nothing for a while, or if the deadline passes, it is released.
#pragma once

#include <optional>

#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/trace/tracee.h"

namespace heapsnap {

class SoleThreadHold {
 public:
  static constexpr std::chrono::milliseconds kLongestIdleness{100};

  // `held` is the tid of the stopped thread of process `pid`.
  SoleThreadHold(const ProcFs& proc, int pid, int held, TraceClock::time_point deadline)
      : proc_(proc), pid_(pid), held_(held), deadline_(deadline) {}

  // Looks at the other threads of the process at `now`. Returns whether to go on holding.
  bool bears_another_look(TraceClock::time_point now);
  // The newest thread that was at work then.
  std::optional<int> at_work() const { return at_work_; }

 private:
  std::optional<int> find_at_work() const;

  const ProcFs& proc_;
  int pid_;
  int held_;
  TraceClock::time_point deadline_;
  std::optional<int> at_work_;
  std::optional<TraceClock::time_point> idle_since_;
};

}  // namespace heapsnap
