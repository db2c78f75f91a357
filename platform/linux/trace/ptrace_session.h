// All threads of one process, stopped.
//
//   seize all -> interrupt all -> wait for all -> look for new ones -> ... until none is new
//
// Seizing alone stops no thread, so the pause starts at the first interrupt. Threads that are
// created meanwhile are found by listing again: once every known thread is stopped, none is left to
// create another.
//
// A thread in uninterruptible sleep (state D: disk, a vfork waiting for its child), or one that
// waits for a page (page_wait.h), cannot stop now, but cannot run the target's code either: the
// pending interrupt stops it first. Such a thread is waited for only briefly, then counted as a
// straggler and left alone. A process that runs in the
// target's memory (the child of a vfork, or of another clone(2) with CLONE_VM) is stopped like a
// thread of the target. Where that cannot be determined (common_memory.h), the process is stopped,
// too, and detached once all are stopped if it turns out not to. While all are stopped, no
// execve(2) can replace the memory of the process, unless a straggler is already inside one
// (may_execute()).
//
// Every function is called on one tracing thread (tracer_thread.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <set>
#include <string>
#include <vector>

#include "platform/linux/proc/common_memory.h"
#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/trace/page_wait.h"
#include "platform/linux/trace/priority_inheritance.h"
#include "platform/linux/trace/tracee.h"

namespace heapsnap {

class PtraceSession {
 public:
  PtraceSession(const ProcFs& proc, int pid) : proc_(proc), pid_(pid) {}
  // Takes over the threads that the caller traces on this thread and has stopped; no other thread
  // may be able to run. The pause begins now.
  PtraceSession(const ProcFs& proc, int pid, std::vector<Tracee> stopped);
  PtraceSession(const PtraceSession&) = delete;
  PtraceSession& operator=(const PtraceSession&) = delete;
  // Detaches every thread that can be detached, the others once they have stopped (late_tracees.h).
  ~PtraceSession();

  // Starts tracing all threads and stops none. Throws TargetRefusal.
  void seize_all();
  // Stops all threads, new ones too. Throws TargetRefusal, Error{kNoProcess} if no thread is left,
  // and Error{kUnsupported} when `deadline` passes; some threads may be stopped then. On a busy
  // machine threads that get no processor to stop on are lent priority, one at a time.
  void stop_all(TraceClock::time_point deadline, PriorityInheritance& inheritance);

  // Stops one thread only. Returns it, or nullptr if it exited or did not stop in time.
  Tracee* stop_one(int tid, TraceClock::time_point deadline);

  // If no thread of the process is at a Stop::kTrap: each that is stopped for a signal gets it, and
  // stops again before it executes an instruction. At a Stop::kSignal a thread can make no system
  // call. Throws Error{kUnsupported} when `deadline` passes; some threads may be running then.
  void deliver_signals(TraceClock::time_point deadline, PriorityInheritance& inheritance);

  // Lets one stopped thread run for about `slice` while the others stay stopped, then stops it
  // again; or until a signal for it stops it, which the next call delivers. Returns false if it has
  // not stopped by `deadline`.
  bool let_run(Tracee& tracee, std::chrono::microseconds slice, TraceClock::time_point deadline);
  // Stops those that let_run() has not, and those created meanwhile. Throws as stop_all() does.
  void stop_new(TraceClock::time_point deadline);

  // Detaches every stopped thread, with the signals that were held back for it. The pause ends with
  // the last one.
  void release() noexcept;
  // The same for all but one, which is still needed; release() then ends the pause.
  void release_others(const Tracee& kept) noexcept;
  // Detaches the stragglers that have stopped since. Returns whether any are left.
  bool collect_stragglers() noexcept;
  // Repeats that until none is left or `deadline` has passed; returns whether none is left. Those
  // that are left are detached when the tracing thread ends.
  bool await_stragglers(TraceClock::time_point deadline) noexcept;

  // The stopped threads of the target and of the processes that share its memory.
  std::vector<Tracee>& tracees() { return tracees_; }
  const std::vector<Tracee>& tracees() const { return tracees_; }
  // The tid of a live thread, for /proc.
  int live_tid() const;
  bool was_stopped_before() const;
  uint64_t syscalls_restarted() const { return syscalls_restarted_; }
  size_t stragglers() const { return stragglers_.size(); }
  // Whether a straggler is, or may be, about to execute another program: that would kill the
  // stopped threads and take over their leader's tid.
  bool may_execute() const;
  // A process that runs in the target's memory, or may do so (kPerhaps).
  struct Sharer {
    int pid = 0;
    CommonMemory memory = CommonMemory::kYes;
    bool was_stopped = true;
  };
  const std::vector<Sharer>& sharers() const { return sharers_; }
  // Whether a thread waits for a child of vfork(2) that is not among them.
  bool misses_vfork_child() const { return misses_vfork_child_; }

  // From the first interrupt until the last thread was detached, or until now if any is stopped; 0
  // if there was none.
  std::chrono::nanoseconds pause() const;
  bool is_released() const { return released_; }

 private:
  size_t seize_new(int process);
  bool is_kernels(int process, int tid) const;
  bool is_ours_already(int tid) const;
  void stop_these(std::vector<size_t> late, TraceClock::time_point deadline);
  void await_stops(std::vector<size_t> late, TraceClock::time_point deadline);
  void note_stop(Tracee& tracee);
  void forget_stopped_stragglers();
  bool all_still_stopped();
  bool knows_all_threads() const;
  bool only_stragglers_left(std::vector<size_t>& late, PageWait& page_wait,
                            std::chrono::nanoseconds waited);
  [[noreturn]] void fail_to_stop(int tid) const;
  void seize_sharers(const std::vector<int>& children);
  void drop_strangers();
  bool waits_for_vfork(const Tracee& tracee) const;
  void let_go(Tracee& tracee) noexcept;

  ProcFs proc_;
  int pid_;
  std::vector<Tracee> tracees_;
  std::set<int> known_;                         // tids seized, and those that cannot be
  PriorityInheritance* inheritance_ = nullptr;  // during stop_all()
  std::set<int> delicate_;                      // tids in calls that a stop interrupts with EINTR
  std::vector<Sharer> sharers_;
  bool misses_vfork_child_ = false;
  bool began_ = false;
  uint64_t syscalls_restarted_ = 0;
  std::set<int> stragglers_;  // tids
  bool released_ = false;
  TraceClock::time_point first_interrupt_{};
  TraceClock::time_point last_release_{};
};

}  // namespace heapsnap
