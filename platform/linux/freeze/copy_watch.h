// Watches a copy-on-write child of the target while it is read, on a thread of its own, and ends
// that before the copy does harm:
//
//   memory   each page that the target writes to while the copy lives takes one more page. When a
//            limit is near, or more than a budget was copied, the copy is void: nothing of it can
//            be read any more, and whoever reads it discards it. It is not killed here. A process
//            that exits still has its memory, but the OOM killer does not see it and picks the
//            target; as long as the copy lives, the OOM killer picks the copy.
//   time     a call that the copy makes for us ends soon, or never: it may block in the kernel
//            for a process that does not answer (userfaultfd(2), FUSE). We wait for it no longer
//            than its deadline, and then kill the copy. It may also wait for a processor that
//            others want: after a quarter of a second it gets real-time priority until its end.
//            (At all other times only the thread that makes the calls sets the copy's priority,
//            until the copy is killed.)
//
// Where the OOM killer ends whole groups, the copy had to find room for all of its memory, and is
// killed when a limit is near all the same.
//
// How soon the watch looks again depends on how much room there is: a target can write 4 GB/s on
// each processor.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/unique_fd.h"
#include "platform/linux/proc/busy_clock.h"
#include "platform/linux/proc/fault_count.h"
#include "platform/linux/proc/memory_margin.h"

namespace heapsnap {

class CopyWatch {
 public:
  // For a copy of process `pid` with `private_bytes` of memory of its own, of which each call may
  // take `patience`. Starts the thread, which sleeps until there is a copy. Throws Error{kInternal}
  // if no thread can be started.
  CopyWatch(int pid, uint64_t private_bytes, std::chrono::nanoseconds patience,
            const KernelFiles& files = {});
  CopyWatch(const CopyWatch&) = delete;
  CopyWatch& operator=(const CopyWatch&) = delete;
  ~CopyWatch();

  // Whether the kernel kills the target too when it kills a copy for lack of memory.
  bool group_dies_together() const { return group_dies_together_; }

  // From now on `child`, a tracee of ours, is watched. With `dies_alone` the kernel kills it before
  // others, and no others, when memory runs out.
  void begin(int child, bool dies_alone);
  // From now on it is void, too, when more than so many bytes were copied since begin().
  void set_budget(uint64_t bytes);
  // True once the copy is void: what is read of it then is to count as lost.
  const std::atomic<bool>& is_void() const { return is_void_; }
  // Makes `copy`, which may be watched, SCHED_OTHER, unless it was killed: then it has real-time
  // priority on its way out.
  void end_priority(int copy);
  // Whether the limits leave room for all that the copy may come to take.
  bool has_room_for_all();
  // Ends the watch: the child is not killed any more. Without begin() nothing happens.
  void end();

  // A call of the copy is in progress, until its deadline or end_call(). When that returns, the
  // copy runs as SCHED_OTHER if it was given real-time priority meanwhile.
  void begin_call();
  void end_call();

  // Why the copy is void; nullopt if it is not.
  std::optional<std::string> reason() const;

 private:
  void serve();
  // Looks once; returns how long to wait until the next look.
  std::chrono::nanoseconds look();
  // Where memory runs out, the reason; else how long to wait until the next look.
  std::optional<std::string> look_at_memory(std::chrono::nanoseconds& nap);
  // Gives the copy real-time priority if a call of it is late. Returns whether its time is over.
  bool look_at_call();
  void make_void(std::string reason);
  void kill();

  uint64_t private_bytes_;
  bool group_dies_together_;
  std::chrono::nanoseconds patience_;
  MemoryMargin margin_;
  BusyClock busy_;
  FaultCount faults_;  // since begin()
  std::atomic<bool> is_void_{false};
  // Taken for each step of the copy. The thread that makes the calls may be kept off the processor
  // while it holds it: so the watch never waits for it.
  std::mutex call_mutex_;
  std::optional<std::chrono::steady_clock::time_point> call_deadline_;  // guarded by call_mutex_
  // The copy, if it has real-time priority for a call that is late. Guarded by call_mutex_.
  int hurried_ = 0;
  std::atomic<bool> is_killed_{false};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int child_ = 0;      // guarded by mutex_, like all below; 0: there is none to watch
  UniqueFd child_fd_;  // a pidfd, so that no other process with that pid is killed
  bool dies_alone_ = false;
  uint64_t budget_ = UINT64_MAX;
  double most_writers_ = 0;  // processors that the target has used since begin()
  bool ending_ = false;
  std::optional<std::string> reason_;
  std::thread thread_;
};

}  // namespace heapsnap
