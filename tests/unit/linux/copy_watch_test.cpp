#include "platform/linux/freeze/copy_watch.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "tests/unit/linux/fixture_tree.h"

using namespace heapsnap;

namespace {

int processors_of(int pid) {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(pid, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

// On the first processor, below all others.
int start_pinned_child() {
  const int child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  cpu_set_t first;
  CPU_ZERO(&first);
  CPU_SET(0, &first);
  ::sched_setaffinity(child, sizeof first, &first);
  return child;
}

bool may_be_realtime() {
  const sched_param lowest{1};
  const sched_param none{0};
  return ::sched_setscheduler(0, SCHED_FIFO, &lowest) == 0 &&
         ::sched_setscheduler(0, SCHED_OTHER, &none) == 0;
}

}  // namespace

TEST_CASE("a copy that is given up waits for no processor on its way out") {
  const FixtureTree tree;
  tree.write("proc/meminfo", "MemAvailable:    1024 kB\n");
  const int child = start_pinned_child();
  CopyWatch watch(child, 1 << 20, std::chrono::seconds(10), {tree.path("proc"), tree.path("sys")});
  watch.begin(child, true);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK(watch.reason().has_value());
  CHECK(processors_of(child) == processors_of(0));
  if (may_be_realtime()) CHECK(::sched_getscheduler(child) == SCHED_FIFO);
  ::waitpid(child, nullptr, 0);
}
