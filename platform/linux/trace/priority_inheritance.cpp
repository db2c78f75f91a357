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

#include "base/page.h"
#include "platform/linux/self/helper_thread.h"
#include "platform/linux/self/realtime_priority.h"

namespace heapsnap {

namespace {

constexpr long kOneWait = 200'000;  // ns; the lender looks for another borrower in between
constexpr int kNobody = 0;          // as a borrower
constexpr int kClosed = -1;
constexpr int kNotReady = -1;  // as a lender
constexpr int kCannotLend = 0;

bool has_several_processors() {
  cpu_set_t processors;
  return ::sched_getaffinity(0, sizeof processors, &processors) != 0 || CPU_COUNT(&processors) > 1;
}

bool set_policy(int tid, int policy, int priority) {
  sched_param parameters{};
  parameters.sched_priority = priority;
  return ::sched_setscheduler(tid, policy, &parameters) == 0;
}

bool caller_is_above_loan() {
  sched_param parameters{};
  const int policy = ::sched_getscheduler(0);
  return (policy == SCHED_FIFO || policy == SCHED_RR) && ::sched_getparam(0, &parameters) == 0 &&
         parameters.sched_priority > kLentPriority;
}

}  // namespace

// What the lender works with. Nobody waits for a lock that the other might hold, since either may
// be kept from the processor.
struct PriorityInheritance::Office {
  explicit Office(uint32_t* shared_word) : word(shared_word) {}
  Office(const Office&) = delete;
  Office& operator=(const Office&) = delete;
  ~Office() { ::munmap(word, kPage); }

  void serve();
  void wait_for(int tid);

  std::atomic<int> borrower{kNobody};
  std::atomic<int> lender{kNotReady};  // its tid
  uint32_t* word;                      // of a shared mapping: the kernel refuses a private futex
};

PriorityInheritance::PriorityInheritance() {
  if (!has_several_processors()) return;
  void* page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  const auto office = std::make_shared<Office>(static_cast<uint32_t*>(page));
  try {
    start_helper_thread([office] { office->serve(); }).detach();
    office_ = office;
  } catch (const std::system_error&) {
    // Nothing is lent.
  }
  // On a busy machine a new thread may wait long for its first turn; later it will not.
  if (office_) office_->lender.wait(kNotReady);
}

PriorityInheritance::~PriorityInheritance() {
  if (!office_) return;
  take_back();
  office_->borrower = kClosed;
  office_->borrower.notify_all();
}

void PriorityInheritance::lend_to(int tid) {
  if (!office_ || office_->borrower == tid || office_->lender == kCannotLend) return;
  take_back();
  if (!caller_is_above_loan()) return;
  // For what is left of its present wait the lender lends this to the one before.
  if (!set_policy(office_->lender, SCHED_FIFO, kLentPriority)) return;
  office_->borrower = tid;
  office_->borrower.notify_all();
}

void PriorityInheritance::take_back() {
  if (!office_ || office_->borrower == kNobody) return;
  office_->borrower = kNobody;
  // The kernel passes the change on to whom the lender waits for (rt_mutex_adjust_pi).
  set_policy(office_->lender, SCHED_OTHER, 0);
}

void PriorityInheritance::Office::serve() {
  const bool can_lend = set_policy(0, SCHED_FIFO, kLentPriority) && set_policy(0, SCHED_OTHER, 0);
  lender = can_lend ? static_cast<int>(::syscall(SYS_gettid)) : kCannotLend;
  lender.notify_all();
  if (!can_lend) return;
  for (int tid = borrower; tid != kClosed; tid = borrower) {
    if (tid == kNobody) {
      borrower.wait(kNobody);
    } else {
      wait_for(tid);
    }
  }
}

void PriorityInheritance::Office::wait_for(int tid) {
  while (borrower == tid) {
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
      // The borrower ended, or cannot be lent to.
      int expected = tid;
      borrower.compare_exchange_strong(expected, kNobody);
    }
  }
}

}  // namespace heapsnap
