#include "platform/linux/trace/priority_inheritance.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>

#include "base/page.h"
#include "platform/linux/self/helper_thread.h"
#include "platform/linux/self/realtime_limit.h"
#include "platform/linux/self/task_priority.h"

namespace heapsnap {

namespace {

constexpr long kOneWait = 200'000;  // ns; the waiter checks for another owner in between
constexpr int kNoThread = 0;        // as owner
constexpr int kClosed = -1;
constexpr int kNotReady = -1;  // as waiter
constexpr int kCannotWait = 0;

bool has_several_processors() {
  cpu_set_t processors;
  return ::sched_getaffinity(0, sizeof processors, &processors) != 0 || CPU_COUNT(&processors) > 1;
}

bool is_above_inherited() {
  sched_param parameters{};
  return is_realtime(::sched_getscheduler(0)) && ::sched_getparam(0, &parameters) == 0 &&
         parameters.sched_priority > inherited_priority();
}

}  // namespace

// State shared with the waiter. Neither thread waits for a lock that the other might hold, since
// either may be kept off the processor.
struct PriorityInheritance::Shared {
  explicit Shared(uint32_t* shared_word) : word(shared_word) {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { ::munmap(word, kPage); }

  void serve();
  void wait_for(int tid);

  std::atomic<int> owner{kNoThread};
  std::atomic<int> waiter{kNotReady};  // its tid
  uint32_t* word;                      // in a shared mapping: the kernel refuses a private futex
};

PriorityInheritance::PriorityInheritance() {
  if (!has_several_processors()) return;
  void* page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  const auto shared = std::make_shared<Shared>(static_cast<uint32_t*>(page));
  try {
    start_helper_thread([shared] { shared->serve(); }).detach();
    shared_ = shared;
  } catch (const std::system_error&) {
    // No priority is inherited.
  }
  // On a busy machine a new thread may take long to run for the first time, but not later.
  if (shared_) shared_->waiter.wait(kNotReady);
}

PriorityInheritance::~PriorityInheritance() {
  if (!shared_) return;
  end();
  shared_->owner = kClosed;
  shared_->owner.notify_all();
}

void PriorityInheritance::raise(int tid) {
  if (!shared_ || shared_->owner == tid || shared_->waiter == kCannotWait) return;
  end();
  if (!is_above_inherited()) return;
  if (std::exchange(last_tid_, tid) != tid) last_is_limited_ = has_realtime_limit(tid);
  if (last_is_limited_) return;
  // Until its current wait ends, the waiter lends this to the previous owner.
  if (!set_policy(shared_->waiter, SCHED_FIFO, inherited_priority())) return;
  shared_->owner = tid;
  shared_->owner.notify_all();
}

void PriorityInheritance::end() {
  if (!shared_ || shared_->owner == kNoThread) return;
  shared_->owner = kNoThread;
  // The kernel passes the change on to the thread that the waiter waits for (rt_mutex_adjust_pi).
  make_ordinary(shared_->waiter);
}

void PriorityInheritance::Shared::serve() {
  const bool can_wait = set_policy(0, SCHED_FIFO, inherited_priority());
  make_ordinary(0);
  waiter = can_wait ? static_cast<int>(::syscall(SYS_gettid)) : kCannotWait;
  waiter.notify_all();
  if (!can_wait) return;
  for (int tid = owner; tid != kClosed; tid = owner) {
    if (tid == kNoThread) {
      owner.wait(kNoThread);
    } else {
      wait_for(tid);
    }
  }
}

void PriorityInheritance::Shared::wait_for(int tid) {
  while (owner == tid) {
    *word = static_cast<uint32_t>(tid);
    timespec until{};
    ::clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += kOneWait;
    if (until.tv_nsec >= 1'000'000'000) {
      until.tv_nsec -= 1'000'000'000;
      ++until.tv_sec;
    }
    if (::syscall(SYS_futex, word, FUTEX_LOCK_PI, 0, &until, nullptr, 0) == 0 ||
        errno != ETIMEDOUT) {
      // The owner has exited, or cannot inherit.
      int expected = tid;
      owner.compare_exchange_strong(expected, kNoThread);
    }
  }
}

}  // namespace heapsnap
