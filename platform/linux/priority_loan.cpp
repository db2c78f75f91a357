#include "platform/linux/priority_loan.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace heapsnap {

namespace {

constexpr size_t kPage = 4096;
constexpr long kOneWait = 200'000;  // ns; a loan cannot be taken back in the middle of a wait

}  // namespace

PriorityLoan::PriorityLoan() {
  void* page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  word_ = static_cast<uint32_t*>(page);
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { serve(); });
  } catch (const std::system_error&) {
    // Nothing is lent.
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  // On a busy machine a new thread may wait long for its first turn; later it will not.
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ready_ || !thread_.joinable(); });
}

PriorityLoan::~PriorityLoan() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      borrower_ = 0;
    }
    changed_.notify_all();
    thread_.join();
  }
  if (word_ != nullptr) ::munmap(word_, kPage);
}

void PriorityLoan::lend_to(int tid) {
  if (borrower_ == tid) return;
  {
    const std::lock_guard lock(mutex_);
    borrower_ = tid;
  }
  changed_.notify_all();
}

void PriorityLoan::serve() {
  sched_param lowest{};
  lowest.sched_priority = ::sched_get_priority_min(SCHED_FIFO);
  const bool can_lend = ::sched_setscheduler(0, SCHED_FIFO, &lowest) == 0;
  std::unique_lock lock(mutex_);
  ready_ = true;
  changed_.notify_all();
  if (!can_lend) return;
  while (!ending_) {
    const int tid = borrower_;
    if (tid == 0) {
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    wait_for(tid);
    lock.lock();
  }
}

void PriorityLoan::wait_for(int tid) {
  while (borrower_ == tid) {
    *word_ = static_cast<uint32_t>(tid);
    timespec until{};
    ::clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += kOneWait;
    if (until.tv_nsec >= 1'000'000'000) {
      until.tv_nsec -= 1'000'000'000;
      ++until.tv_sec;
    }
    if (::syscall(SYS_futex, word_, FUTEX_LOCK_PI, 0, &until, nullptr, 0) == 0 ||
        errno != ETIMEDOUT) {
      // The borrower ended, or cannot be lent to.
      int expected = tid;
      borrower_.compare_exchange_strong(expected, 0);
    }
  }
}

}  // namespace heapsnap
