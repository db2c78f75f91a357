// Runs one thread of the target at real-time priority while others wait for it.
//
// On a busy machine a thread that is woken waits milliseconds for a processor, each time, and a
// caller (caller_choice.h) is woken three times while the whole target is stopped. A real-time
// policy set on it would outlive heapsnap if heapsnap were killed. Priority inheritance does not: a
// thread of ours that runs as SCHED_FIFO waits for a PI futex (futex(2), FUTEX_LOCK_PI) whose word
// names the target's thread as the owner, so the kernel runs that thread at our priority for as
// long as ours waits. However the wait ends, the inheritance ends with it.
//
// The futex is in heapsnap's own memory; the target takes no part.
//
//   tracing thread   tracer_priority()      preempts an owner that does not stop
//   waiter           inherited_priority()   waits for the futex, so that the owner inherits this
//   owner            the same               for as long as the waiter waits
//
// Both are SCHED_FIFO (self/task_priority.h).
//
// The kernel does not time-slice tasks of the same SCHED_FIFO priority. So a waiter whose wait is
// over may not get a processor for as long as the owner keeps it busy, and could not end the
// inheritance itself: the tracing thread ends it by dropping the waiter's priority, which takes
// effect at once. For the same reason nothing is inherited unless the tracing thread runs at a
// higher priority, nor if heapsnap has only one processor: if it were killed there, the owner would
// keep the processor from the waiter that has to die.
#pragma once

#include <memory>

namespace heapsnap {

class PriorityInheritance {
 public:
  PriorityInheritance();
  PriorityInheritance(const PriorityInheritance&) = delete;
  PriorityInheritance& operator=(const PriorityInheritance&) = delete;
  ~PriorityInheritance();

  // `tid` soon runs at the priority, and no other thread does. None does if the process of `tid`
  // has_realtime_limit(), which is looked up once for calls with the same tid in a row: who waits
  // for a thread calls this again and again.
  void raise(int tid);
  // Ends the inheritance. When this returns, the thread that inherited runs as before.
  void end();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // with the waiter, which ends later; null without one
  int last_tid_ = 0;                // of the last raise()
  bool last_is_limited_ = false;
};

// Ends an inheritance with the scope. Until then the tracing thread needs a priority of its own:
// an owner that does not stop would keep one without it from the processor.
class InheritanceScope {
 public:
  explicit InheritanceScope(PriorityInheritance& inheritance) : inheritance_(inheritance) {}
  InheritanceScope(const InheritanceScope&) = delete;
  InheritanceScope& operator=(const InheritanceScope&) = delete;
  ~InheritanceScope() { inheritance_.end(); }

 private:
  PriorityInheritance& inheritance_;
};

}  // namespace heapsnap
