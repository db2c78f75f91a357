// Lends real-time priority to one thread of the target while others wait for what it does.
//
// On a busy machine a thread that is woken waits for the processor for milliseconds, each time; a
// donor (donor.h) is woken three times while the whole target stands still. Giving it a real-time
// policy would outlive heapsnap if that were killed. Priority inheritance does not: a thread of
// ours that runs as SCHED_FIFO waits for a PI futex (futex(2), FUTEX_LOCK_PI) whose word names the
// target's thread as the owner, so the kernel lets that thread run with our priority for as long as
// ours waits. When the wait ends, in whatever way, the loan ends.
//
// The futex lies in memory of ours alone; the target does not take part. Without the right to run
// as SCHED_FIFO nothing is lent.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace heapsnap {

class PriorityLoan {
 public:
  PriorityLoan();
  PriorityLoan(const PriorityLoan&) = delete;
  PriorityLoan& operator=(const PriorityLoan&) = delete;
  ~PriorityLoan();

  // Lends to `tid` from soon on, and to nobody else.
  void lend_to(int tid);
  // Ends the loan within a millisecond.
  void take_back() { lend_to(0); }

 private:
  void serve();
  void wait_for(int tid);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> borrower_{0};
  bool ready_ = false;        // guarded by mutex_
  bool ending_ = false;       // guarded by mutex_
  uint32_t* word_ = nullptr;  // of a shared mapping: the kernel refuses a private futex
  std::thread thread_;
};

}  // namespace heapsnap
