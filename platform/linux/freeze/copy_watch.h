// Watches a copy-on-write child of the target while it is read, on a thread of its own, and kills
// it before it does harm:
//
//   memory   each page that the target writes to while the copy lives takes one more page. When a
//            limit is near, the copy is killed, before the kernel looks for a process to kill. The
//            same when more than a budget was copied, if there is one: other threads would notice
//            too late on a busy machine, where this one need not wait for a processor.
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
  // others when memory runs out: that is left to the kernel once it is too late to kill it here.
  void begin(int child, bool dies_alone);
  // From now on it is killed, too, when more than so many bytes were copied since begin().
  void set_budget(uint64_t bytes);
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
  // What is left of the budget; kills the child when that is nothing.
  uint64_t look_at_budget();
  void give_up(std::string reason);

  uint64_t private_bytes_;
  bool group_dies_together_;
  std::chrono::nanoseconds patience_;
  MemoryMargin margin_;
  BusyClock busy_;
  FaultCount faults_;                         // since begin()
  std::atomic<int64_t> call_deadline_ns_{0};  // of the steady clock; 0: no call in progress
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int child_ = 0;      // guarded by mutex_, like all below; 0: there is none to watch
  UniqueFd child_fd_;  // a pidfd, so that no other process with that pid is killed
  bool dies_alone_ = false;
  uint64_t budget_ = UINT64_MAX;
  bool ending_ = false;
  std::optional<std::string> reason_;
  std::thread thread_;
};

}  // namespace heapsnap
