// A target whose only thread is in a signal handler that has interrupted code which a test calls
// the allocator, and makes system calls there.
//
// Says "ready", then where that code lies, "BEGIN END" in hexadecimal. When its standard input ends
// the handler returns, and it says "calls=123".
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>

extern "C" const char __start_counting_code;  // by the linker
extern "C" const char __stop_counting_code;

namespace {

volatile long counted = 0;
volatile long calls = 0;
volatile bool is_over = false;

[[gnu::section("counting_code"), gnu::noinline]] void count_for_a_while() {
  for (int i = 0; i < 1000; ++i) counted = counted + 1;
}

void on_alarm(int, siginfo_t*, void* context) {
  const auto at =
      static_cast<uintptr_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
  if (is_over || at < reinterpret_cast<uintptr_t>(&__start_counting_code) ||
      at >= reinterpret_cast<uintptr_t>(&__stop_counting_code)) {
    return;
  }
  if (calls == 0) {
    std::printf("ready\n%" PRIxPTR " %" PRIxPTR "\n",
                reinterpret_cast<uintptr_t>(&__start_counting_code),
                reinterpret_cast<uintptr_t>(&__stop_counting_code));
    std::fflush(stdout);
  }
  pollfd input{STDIN_FILENO, POLLIN, 0};
  do {
    // Most of the time it is about to make a call, and not in one.
    for (int i = 0; i < 500; ++i) counted = counted + 1;
    syscall(SYS_getppid);
    calls = calls + 1;
  } while (calls % 1000 != 0 || poll(&input, 1, 0) == 0);
  is_over = true;
}

}  // namespace

int main() {
  struct sigaction action {};
  action.sa_sigaction = on_alarm;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often{{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &often, nullptr);
  while (!is_over) count_for_a_while();
  std::printf("calls=%ld\n", calls);
  return 0;
}
