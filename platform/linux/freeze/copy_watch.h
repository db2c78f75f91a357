// Watches a copy-on-write child of the target while it is read, on a thread of its own, and kills
// it before it does harm:
//
//   memory   each page that the target writes to while the copy lives takes a page more. When a
//            limit comes near, the copy goes, before the kernel looks for a process to end.
//   time     what the copy does for us ends soon by itself, or never: it may wait in the kernel for
//            somebody who does not answer (userfaultfd(2), FUSE). Nobody waits for it longer than
//            its deadline.
//
// How soon the watch looks again follows from how much room there is: a target can write 4 GB/s on
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
  // when no thread can be had.
  CopyWatch(int pid, uint64_t private_bytes, std::chrono::nanoseconds patience,
            const KernelFiles& files = {});
  CopyWatch(const CopyWatch&) = delete;
  CopyWatch& operator=(const CopyWatch&) = delete;
  ~CopyWatch();

  // Whether the kernel ends the target as well when it ends a copy for want of memory.
  bool group_dies_together() const { return group_dies_together_; }

  // From here on `child`, a tracee of ours, is watched. With `dies_alone` the kernel ends it before
  // others when memory runs out: then it is left to that where killing it comes too late.
  void begin(int child, bool dies_alone);
  // It is not killed any more. Without begin() nothing happens.
  void end();

  // A call of the copy is under way, until its deadline or end_call().
  void begin_call();
  void end_call() { call_deadline_ns_ = 0; }

  // Why the copy was killed; nothing when it was not.
  std::optional<std::string> reason() const;

 private:
  void serve();
  // Looks once; gives how long to wait until the next look.
  std::chrono::nanoseconds look();
  void give_up(std::string reason);

  uint64_t private_bytes_;
  bool group_dies_together_;
  std::chrono::nanoseconds patience_;
  MemoryMargin margin_;
  BusyClock busy_;
  std::atomic<int64_t> call_deadline_ns_{0};  // of the steady clock; 0: no call is under way
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int child_ = 0;      // guarded by mutex_, as all below; 0: there is none to watch
  UniqueFd child_fd_;  // a pidfd, so that no other process of that number is killed
  bool dies_alone_ = false;
  bool ending_ = false;
  std::optional<std::string> reason_;
  std::thread thread_;
};

}  // namespace heapsnap
