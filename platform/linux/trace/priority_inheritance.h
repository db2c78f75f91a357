// Gives one thread of the target real-time priority while others wait for what it does.
//
// On a busy machine a thread that is woken waits for the processor for milliseconds, each time; a
// caller (caller_choice.h) is woken three times while the whole target is stopped. Giving it a
// real-time policy would outlive heapsnap if that were killed. Priority inheritance does not: a
// thread of ours that runs as SCHED_FIFO waits for a PI futex (futex(2), FUTEX_LOCK_PI) whose word
// names the target's thread as the owner, so the kernel lets that thread run with our priority for
// as long as ours waits. When the wait ends, in whatever way, the inheritance ends.
//
// The futex lies in memory of ours alone; the target does not take part.
//
//   tracing thread   SCHED_FIFO 2   (realtime_priority.h) preempts an owner that does not stop
//   waiter           SCHED_FIFO 1   waits for the futex, so that the owner inherits this
//   owner            as that        for as long as the waiter waits
//
// The kernel does not take turns among tasks of one real-time priority. So a waiter whose wait is
// over may not get a processor for as long as the owner is busy on it, and could not end the
// inheritance by itself: the tracing thread ends it by taking the waiter's priority away, which
// works at once. For the same reason nothing is inherited where the tracing thread does not run
// with a higher priority, and nothing where heapsnap has one processor only: if it were killed
// there, the owner would keep the processor from the waiter that has to die.
#pragma once

#include <memory>

namespace heapsnap {

class PriorityInheritance {
 public:
  PriorityInheritance();
  PriorityInheritance(const PriorityInheritance&) = delete;
  PriorityInheritance& operator=(const PriorityInheritance&) = delete;
  ~PriorityInheritance();

  // `tid` runs with the priority from soon on, and nobody else.
  void raise(int tid);
  // Ends the inheritance. Whoever inherited runs as before when this returns.
  void end();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // with the waiter, who ends later; null without one
};

}  // namespace heapsnap
