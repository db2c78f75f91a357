#include "platform/linux/trace/reaping_seize.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "platform/linux/trace/late_tracees.h"

namespace heapsnap {

namespace {

constexpr long kBetweenLooks = 1'000'000;  // ns

// Of the call that is going on in this thread. The handler runs in the same thread.
thread_local const std::vector<Tracee>* others = nullptr;

// The kernel restarts the call when the handler returns.
void on_timer(int /*signal*/) {
  const int error_before = errno;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (others != nullptr) {
    for (const Tracee& other : *others) other.give_up_zombie();
    give_up_late_zombies();
  }
  errno = error_before;
}

// The timer's signal reaches this thread while this exists.
class TimerSignal {
 public:
  TimerSignal() {
    struct sigaction action {};
    action.sa_handler = on_timer;
    sigfillset(&action.sa_mask);
    ::sigaction(number(), &action, &action_before_);
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, number());
    ::pthread_sigmask(SIG_UNBLOCK, &ours, &mask_before_);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = number();
    event._sigev_un._tid = ::gettid();
    is_running_ = ::timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
    const itimerspec often{{0, kBetweenLooks}, {0, kBetweenLooks}};
    if (is_running_) ::timer_settime(timer_, 0, &often, nullptr);
  }
  TimerSignal(const TimerSignal&) = delete;
  TimerSignal& operator=(const TimerSignal&) = delete;
  ~TimerSignal() {
    if (is_running_) ::timer_delete(timer_);
    ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
    ::sigaction(number(), &action_before_, nullptr);
  }

 private:
  static int number() { return SIGRTMIN; }

  struct sigaction action_before_ {};
  sigset_t mask_before_{};
  timer_t timer_{};
  bool is_running_ = false;
};

}  // namespace

int seize_reaping(Tracee& tracee, const std::vector<Tracee>& traced) {
  if (traced.empty() && !has_late_tracees()) return tracee.seize();
  others = &traced;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  int refusal = 0;
  {
    const TimerSignal timer;
    refusal = tracee.seize();
  }
  others = nullptr;
  return refusal;
}

}  // namespace heapsnap
