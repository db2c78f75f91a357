#include "platform/linux/freeze/copy_watch.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/count_text.h"
#include "base/error.h"
#include "platform/linux/proc/cgroup_limits.h"
#include "platform/linux/proc/memory_room.h"
#include "platform/linux/proc/process_end.h"
#include "platform/linux/self/helper_thread.h"
#include "platform/linux/self/task_priority.h"

namespace heapsnap {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kShortestWatchNap{500};
constexpr std::chrono::milliseconds kLongestWatchNap{20};
constexpr std::chrono::nanoseconds kUntilHurry = std::chrono::milliseconds(250);
// No target writes more than this: 4 processors, 4 GB/s each.
constexpr double kMostWrittenPerSecond = 16e9;
constexpr double kAnyNumber = 1e3;  // of processors

constexpr long kPidfdSendSignal = 424;  // 5.1

}  // namespace

CopyWatch::CopyWatch(int pid, uint64_t private_bytes, std::chrono::nanoseconds patience,
                     const KernelFiles& files)
    : private_bytes_(private_bytes),
      group_dies_together_(read_cgroup_limits(pid, files).dies_together),
      patience_(patience),
      margin_(pid, files),
      busy_(pid),
      faults_(pid, files) {
  thread_ = start_needed_thread([this] { serve(); });
}

CopyWatch::~CopyWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    child_ = 0;
  }
  changed_.notify_all();
  thread_.join();
}

void CopyWatch::begin(int child, bool dies_alone) {
  {
    const std::lock_guard lock(mutex_);
    child_ = child;
    child_fd_ = open_pidfd(child);
    dies_alone_ = dies_alone;
    faults_.restart();
    most_writers_ = 0;
  }
  changed_.notify_all();
}

void CopyWatch::set_budget(uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    budget_ = bytes;
  }
  changed_.notify_all();
}

void CopyWatch::end() {
  const std::lock_guard lock(mutex_);
  child_ = 0;
}

void CopyWatch::begin_call() {
  const std::lock_guard lock(call_mutex_);
  call_deadline_ = Clock::now() + patience_;
}

void CopyWatch::end_call() {
  const std::lock_guard lock(call_mutex_);
  call_deadline_.reset();
  if (const int copy = std::exchange(hurried_, 0)) end_priority(copy);
}

void CopyWatch::end_priority(int copy) {
  if (is_killed_) return;
  make_ordinary(copy);
  if (is_killed_) make_realtime(copy);  // just now
}

std::optional<std::string> CopyWatch::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

void CopyWatch::serve() {
  // It runs for some 50 us at a time; if it had to wait for a processor, it would be too late.
  make_realtime(static_cast<int>(::syscall(SYS_gettid)));
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (child_ == 0) {
      changed_.wait(lock);
    } else {
      const std::chrono::nanoseconds nap = look();
      if (child_ != 0) changed_.wait_for(lock, nap);
    }
  }
}

std::chrono::nanoseconds CopyWatch::look() {
  if (look_at_call()) {
    make_void("it did not finish a system call in time");
    kill();
    return {};
  }
  std::chrono::nanoseconds nap = kLongestWatchNap;
  if (is_void_) return nap;
  if (auto reason = look_at_memory(nap)) {
    make_void(*std::move(reason));
    if (!dies_alone_) kill();
  }
  return nap;
}

bool CopyWatch::look_at_call() {
  const std::unique_lock lock(call_mutex_, std::try_to_lock);
  // A call that begins or ends just now is not late.
  if (!lock || !call_deadline_) return false;
  const auto left = *call_deadline_ - Clock::now();
  const bool is_late = left <= patience_ - std::min(kUntilHurry, patience_ / 2);
  // One that is real-time already is not ours to change.
  if (is_late && hurried_ == 0 && !is_realtime(::sched_getscheduler(child_)) &&
      make_realtime(child_)) {
    hurried_ = child_;
  }
  return left <= Clock::duration::zero();
}

std::optional<std::string> CopyWatch::look_at_memory(std::chrono::nanoseconds& nap) {
  uint64_t left = UINT64_MAX;
  if (budget_ != UINT64_MAX) {
    const uint64_t copied = faults_.bytes().value_or(0);
    if (copied > budget_) {
      return "the process writes to its memory: up to " + size_text(copied) +
             " were copied while its copy was read, more than the budget of " + size_text(budget_);
    }
    left = budget_ - copied;
  }
  // What the target can write before the copy is gone, at the fastest pace so far: a thread that
  // has just not had a processor, since we took it, writes on in a moment.
  const std::optional<double> now = busy_.processors();
  most_writers_ = std::max(most_writers_, now.value_or(0));
  const double writers = dies_alone_ ? std::max(most_writers_, now.value_or(1)) : kAnyNumber;
  busy_.restart();
  const uint64_t needed = written_until_gone(private_bytes_, writers) + kSpareBesideCopy;
  const MemoryMargin::Room room = margin_.room(needed);
  if (room.bytes < needed) {
    return "the target writes to its memory, and only " + size_text(room.bytes) +
           " are left of the " + room.limit;
  }
  left = std::min(left, room.bytes - needed);
  const double seconds = static_cast<double>(left) / kMostWrittenPerSecond / 2;
  nap = std::clamp<std::chrono::nanoseconds>(
      std::chrono::nanoseconds(static_cast<int64_t>(std::min(seconds, 1.0) * 1e9)),
      kShortestWatchNap, kLongestWatchNap);
  return std::nullopt;
}

bool CopyWatch::has_room_for_all() {
  const std::lock_guard lock(mutex_);
  return margin_.room(private_bytes_).bytes >= private_bytes_;
}

void CopyWatch::make_void(std::string reason) {
  reason_ = std::move(reason);
  is_void_ = true;
}

void CopyWatch::kill() {
  // While it exits it still has its memory: it must not wait for the processor that it was made to
  // share with us.
  cpu_set_t all;
  std::memset(&all, 0xff, sizeof all);
  ::sched_setaffinity(child_, sizeof all, &all);
  is_killed_ = true;
  make_realtime(child_);  // until its end
  if (!child_fd_ || ::syscall(kPidfdSendSignal, child_fd_.get(), SIGKILL, nullptr, 0) != 0) {
    ::kill(child_, SIGKILL);
  }
  child_ = 0;
}

}  // namespace heapsnap
