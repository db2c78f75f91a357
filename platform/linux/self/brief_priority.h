// Runs the calling thread as SCHED_FIFO while the target is stopped for it, but not for long.
//
// On a busy machine a thread that reads a stopped target waits for a processor again and again: a
// read of 0.1 ms took up to a second. With real-time priority it does not; but how long a read
// takes, heapsnap only estimates. So another thread, of higher priority, ends this one's after a
// moment, whatever it does then.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace heapsnap {

class BriefPriority {
 public:
  // Starts that thread, and waits until it runs: do so before time counts.
  BriefPriority() noexcept;
  BriefPriority(const BriefPriority&) = delete;
  BriefPriority& operator=(const BriefPriority&) = delete;
  ~BriefPriority();

  // The calling thread, which has created this, gets the priority, until the end of the scope.
  // It does not where may_be_realtime() says no, the kernel refuses, or no thread could be started.
  // Threads that it starts do not inherit the priority (SCHED_RESET_ON_FORK, which stays set
  // without CAP_SYS_NICE).
  void begin() noexcept;
  // For so long at most. Before this, the caller only waits.
  void end_after(std::chrono::nanoseconds most);

 private:
  void serve();
  void end_now() noexcept;

  const int tid_;
  const int policy_before_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_, like what follows.
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  bool is_raised_ = false;
  int helper_ = 0;  // the tid of the other thread, once it runs
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace heapsnap
