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
  // Until the end of the scope, which is on the same thread. Where the kernel refuses real-time
  // priority, or no thread can be started, nothing changes. Threads that the caller starts
  // meanwhile do not inherit it.
  BriefPriority() noexcept;
  BriefPriority(const BriefPriority&) = delete;
  BriefPriority& operator=(const BriefPriority&) = delete;
  ~BriefPriority();

  // From now on, for so long at most. Before, the caller only waits.
  void end_after(std::chrono::nanoseconds most);

 private:
  void serve();
  void end_now() noexcept;

  const int tid_;
  const int policy_before_;
  bool is_raised_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_, like what follows.
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  bool is_ready_ = false;
  bool is_above_ = false;  // the thread has its priority
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace heapsnap
