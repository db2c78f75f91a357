#include "platform/linux/self/ending_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>

#include "base/alteration.h"

namespace heapsnap {

namespace {

// For all repairs together; after that the kernel does what is left, as after a SIGKILL.
constexpr std::chrono::seconds kLongestRepair{10};
constexpr std::chrono::milliseconds kBetweenKnocks{50};
// Sent to the main thread so that its system call fails with EINTR. Ignored by default.
constexpr int kKnock = SIGURG;

std::atomic<bool> stop_asked{false};
std::atomic<unsigned> continued{0};

void nothing(int /*signal*/) {}

bool is_ours_to_take(int signal) {
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  return action.sa_handler != SIG_IGN && ::sigismember(&blocked, signal) == 0;
}

sigset_t awaited_signals() {
  sigset_t awaited;
  ::sigemptyset(&awaited);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (is_ours_to_take(signal)) ::sigaddset(&awaited, signal);
  }
  // SIGCONT is awaited to learn that a stop that is still due is no longer wanted.
  if (is_ours_to_take(SIGTSTP) && is_ours_to_take(SIGCONT)) {
    ::sigaddset(&awaited, SIGTSTP);
    ::sigaddset(&awaited, SIGCONT);
  }
  return awaited;
}

[[noreturn]] void die_by(int signal) {
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, signal);
  ::kill(::getpid(), signal);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  ::_exit(128 + signal);  // not reached: the default action ends the process
}

// Lets the kernel stop all of heapsnap. It does not stop an orphaned process group, which no shell
// could continue.
void stop_here() {
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, SIGTSTP);
  ::pthread_kill(::pthread_self(), SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);  // stopped here until a SIGCONT
  ::pthread_sigmask(SIG_BLOCK, &only, nullptr);
}

// Whether a blocked signal is pending.
bool has_come(int signal) {
  sigset_t pending;
  return ::sigpending(&pending) == 0 && ::sigismember(&pending, signal) == 1;
}

// Returns the signal to die by.
int await_end(const sigset_t& awaited) {
  constexpr timespec kTick{0, std::chrono::nanoseconds(kBetweenKnocks).count()};
  bool is_to_stop = false;
  while (true) {
    const int signal = ::sigtimedwait(&awaited, nullptr, is_to_stop ? &kTick : nullptr);
    if (signal == SIGTSTP || signal == SIGCONT) {
      is_to_stop = signal == SIGTSTP;
      stop_asked = is_to_stop;
      if (signal == SIGCONT) ++continued;
    } else if (signal > 0) {
      return signal;
    }
    if (!is_to_stop || !await_repair(std::chrono::milliseconds(0))) continue;
    if (!has_come(SIGCONT)) stop_here();
    is_to_stop = false;
    stop_asked = false;
    permit_alterations();
  }
}

[[noreturn]] void serve(const sigset_t& awaited, pthread_t main_thread) {
  const int signal = await_end(awaited);
  ask_to_end();
  const auto deadline = std::chrono::steady_clock::now() + kLongestRepair;
  while (!await_repair(kBetweenKnocks) && std::chrono::steady_clock::now() < deadline) {
    ::pthread_kill(main_thread, kKnock);
  }
  die_by(signal);
}

}  // namespace

bool is_stop_asked() noexcept {
  return stop_asked;
}

unsigned continuations() noexcept {
  return continued;
}

EndingSignals::EndingSignals() {
  const sigset_t awaited = awaited_signals();
  struct sigaction action {};
  action.sa_handler = nothing;  // without SA_RESTART
  ::sigaction(kKnock, &action, nullptr);
  ::pthread_sigmask(SIG_BLOCK, &awaited, nullptr);
  try {
    std::thread(serve, awaited, ::pthread_self()).detach();
  } catch (const std::system_error&) {
    ::pthread_sigmask(SIG_UNBLOCK, &awaited, nullptr);
  }
}

void EndingSignals::wait_for_end() const {
  while (true) ::pause();
}

int do_until_asked_to_end(const std::function<int()>& work) {
  const EndingSignals signals;
  try {
    const int code = work();
    if (!is_end_asked()) return code;
  } catch (...) {
    if (!is_end_asked()) throw;
  }
  signals.wait_for_end();
}

}  // namespace heapsnap
