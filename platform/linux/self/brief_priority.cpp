#include "platform/linux/self/brief_priority.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <system_error>

#include "platform/linux/self/helper_thread.h"
#include "platform/linux/self/realtime_limit.h"
#include "platform/linux/self/task_priority.h"

namespace heapsnap {

BriefPriority::BriefPriority() noexcept
    : tid_(static_cast<int>(::syscall(SYS_gettid))), policy_before_(::sched_getscheduler(0)) {
  if (!is_ordinary(policy_before_) || !may_be_realtime(0)) return;
  try {
    thread_ = start_helper_thread([this] { serve(); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return helper_ != 0; });
  } catch (const std::system_error&) {
    // It never begins.
  }
}

void BriefPriority::begin() noexcept {
  const std::lock_guard lock(mutex_);
  if (helper_ == 0 || !set_policy(helper_, SCHED_FIFO, tracer_priority())) return;
  is_raised_ = set_policy(0, SCHED_FIFO | SCHED_RESET_ON_FORK, inherited_priority());
}

BriefPriority::~BriefPriority() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    end_now();
    changed_.notify_all();
  }
  thread_.join();
}

void BriefPriority::end_after(std::chrono::nanoseconds most) {
  const std::lock_guard lock(mutex_);
  deadline_ = std::chrono::steady_clock::now() + most;
  changed_.notify_all();
}

void BriefPriority::serve() {
  std::unique_lock lock(mutex_);
  helper_ = static_cast<int>(::syscall(SYS_gettid));
  changed_.notify_all();
  changed_.wait(lock, [this] { return is_ending_ || deadline_; });
  if (is_ending_) return;
  changed_.wait_until(lock, *deadline_, [this] { return is_ending_; });
  end_now();
}

void BriefPriority::end_now() noexcept {
  if (!is_raised_) return;
  is_raised_ = false;
  if (set_policy(tid_, policy_before_, 0)) return;
  // The flag stays without CAP_SYS_NICE.
  set_policy(tid_, policy_before_ | SCHED_RESET_ON_FORK, 0);
}

}  // namespace heapsnap
