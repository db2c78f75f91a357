// Watches a copy-on-write child of the target while it is read, on a thread of its own, and kills
// it before it does harm:
//
//   memory   each page that the target writes to while the copy lives takes one more page. When a
//            limit is near, the copy is killed, before the kernel looks for a process to kill.
//   time     a call that the copy makes for us ends soon, or never: it may block in the kernel
//            for a process that does not answer (userfaultfd(2), FUSE). We wait for it no longer
//            than its deadline.
//
// How soon the watch looks again depends on how much room there is: a target can write 4 GB/s on
// each processor.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/unique_fd.h"
#include "platform/linux/proc/busy_clock.h"
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
  // others when memory runs out: that is left to the kernel once it is too late to kill it here.
  void begin(int child, bool dies_alone);
  // Ends the watch: the child is not killed any more. Without begin() nothing happens.
  void end();

  // A call of the copy is in progress, until its deadline or end_call().
  void begin_call();
  void end_call() { call_deadline_ns_ = 0; }

  // Why the copy was killed; nullopt if it was not.
  std::optional<std::string> reason() const;

 private:
  void serve();
  // Looks once; returns how long to wait until the next look.
  std::chrono::nanoseconds look();
  void give_up(std::string reason);

  uint64_t private_bytes_;
  bool group_dies_together_;
  std::chrono::nanoseconds patience_;
  MemoryMargin margin_;
  BusyClock busy_;
  std::atomic<int64_t> call_deadline_ns_{0};  // of the steady clock; 0: no call in progress
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int child_ = 0;      // guarded by mutex_, like all below; 0: there is none to watch
  UniqueFd child_fd_;  // a pidfd, so that no other process with that pid is killed
  bool dies_alone_ = false;
  bool ending_ = false;
  std::optional<std::string> reason_;
  std::thread thread_;
};

}  // namespace heapsnap
