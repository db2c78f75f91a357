// A target with one thread, which sleeps in nanosleep(2) and poll(2): calls that a stop turns into
// a restart with the time that was left, so that nobody may take the thread elsewhere meanwhile.
//
// Says "ready", sleeps by turns until its standard input ends, and then says
//
//   errors=0 error=0 early=0 late=0 locks=0 sleeps=123
//
// where `error` is the errno of the last one (poll's and 1000), `locks` says whether the C library
// has this thread lock against others, and `late` counts sleeps of more than three times their
// length, which a busy machine alone does not explain.
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace {

constexpr long kMilliseconds = 300;

double now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// tcbhead_t::multiple_threads.
unsigned counts_on_others() {
  unsigned word = 0;
  asm volatile("movl %%fs:0x18, %0" : "=r"(word));
  return word;
}

}  // namespace

int main() {
  long errors = 0;
  int error = 0;
  long early = 0;
  long late = 0;
  long sleeps = 0;
  std::puts("ready");
  std::fflush(stdout);
  while (true) {
    const double begin = now_ms();
    if (sleeps % 2 == 0) {
      const timespec time{0, kMilliseconds * 1000000};
      if (nanosleep(&time, nullptr) != 0) ++errors, error = errno;
    } else {
      if (poll(nullptr, 0, kMilliseconds) != 0) ++errors, error = errno + 1000;
    }
    const double took = now_ms() - begin;
    if (took < kMilliseconds - 1) ++early;
    if (took > 3 * kMilliseconds) ++late;
    ++sleeps;
    pollfd input{0, POLLIN, 0};
    if (poll(&input, 1, 0) > 0) break;
  }
  std::printf("errors=%ld error=%d early=%ld late=%ld locks=%u sleeps=%ld\n", errors, error, early,
              late, counts_on_others(), sleeps);
  return 0;
}
