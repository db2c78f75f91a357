// Lends real-time priority to one thread of the target while others wait for what it does.
//
// On a busy machine a thread that is woken waits for the processor for milliseconds, each time; a
// caller (caller_choice.h) is woken three times while the whole target stands still. Giving it a
// real-time policy would outlive heapsnap if that were killed. Priority inheritance does not: a
// thread of ours that runs as SCHED_FIFO waits for a PI futex (futex(2), FUTEX_LOCK_PI) whose word
// names the target's thread as the owner, so the kernel lets that thread run with our priority for
// as long as ours waits. When the wait ends, in whatever way, the loan ends.
//
// The futex lies in memory of ours alone; the target does not take part.
//
//   tracing thread   SCHED_FIFO 2   (realtime_priority.h) preempts a borrower that does not stop
//   lender           SCHED_FIFO 1   waits for the futex, and so lends this
//   borrower         as that        for as long as the lender waits
//
// The kernel does not take turns among tasks of one real-time priority. So a lender whose wait is
// over may not get a processor for as long as the borrower is busy on it, and could not end the
// loan by itself: the tracing thread ends it by taking the lender's priority away, which works at
// once. For the same reason nothing is lent by a caller that does not run with a higher priority,
// and nothing where heapsnap has one processor only: if it were killed there, the borrower would
// keep the processor from the lender that has to die.
#pragma once

#include <memory>

namespace heapsnap {

class PriorityInheritance {
 public:
  PriorityInheritance();
  PriorityInheritance(const PriorityInheritance&) = delete;
  PriorityInheritance& operator=(const PriorityInheritance&) = delete;
  ~PriorityInheritance();

  // Lends to `tid` from soon on, and to nobody else.
  void lend_to(int tid);
  // Ends the loan. Whoever borrowed runs as before when this returns.
  void take_back();

 private:
  struct Office;
  std::shared_ptr<Office> office_;  // with the lender, who goes home later; null without one
};

}  // namespace heapsnap
