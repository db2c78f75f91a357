// A thread that is to make system calls for heapsnap and is not fit for that: what it does runs on.
#include "platform/linux/remote_call/caller_stop.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <thread>

#include "platform/linux/proc/mapped_files.h"
#include "platform/linux/proc/process_memory.h"
#include "platform/linux/trace/tracer_thread.h"
#include "target/address_space.h"
#include "tests/live/checks.h"
#include "tests/live/forked_child.h"

namespace heapsnap::live {

namespace {

// What the child and the test share.
struct Progress {
  std::atomic<bool> is_ready{false};
  std::atomic<bool> may_end{false};
  std::atomic<int64_t> longest_gap_ns{0};  // between two rounds of its main code
};

void be_busy_for_a_while(int) {
  const auto end = TraceClock::now() + std::chrono::microseconds(300);
  while (TraceClock::now() < end) {
  }
}

// A timer sends a signal every half a millisecond, and the handler has a stack of its own.
int run_beside_a_timer(Progress& progress) {
  static std::array<char, 65536> handler_stack;
  stack_t stack{};
  stack.ss_sp = handler_stack.data();
  stack.ss_size = handler_stack.size();
  struct sigaction action {};
  action.sa_handler = be_busy_for_a_while;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  constexpr timeval kPeriod{0, 500};
  constexpr itimerval kTimer{kPeriod, kPeriod};
  if (::sigaltstack(&stack, nullptr) != 0 || ::sigaction(SIGALRM, &action, nullptr) != 0 ||
      ::setitimer(ITIMER_REAL, &kTimer, nullptr) != 0) {
    return 1;
  }
  auto last = TraceClock::now();
  while (!progress.may_end) {
    const auto now = TraceClock::now();
    const int64_t gap = std::chrono::nanoseconds(now - last).count();
    if (progress.is_ready && gap > progress.longest_gap_ns) progress.longest_gap_ns = gap;
    last = now;
    progress.is_ready = true;
  }
  return 0;
}

}  // namespace

TEST_CASE("a thread whose signals come faster than it is looked at runs on between the looks") {
  void* const page =
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  auto& progress = *new (page) Progress;
  const pid_t child = run_in_child([&] { return run_beside_a_timer(progress); });
  REQUIRE(eventually([&] { return progress.is_ready.load(); }, std::chrono::seconds(20)));
  const ProcFs proc;
  ProcessMemory memory(proc, child, ProcessMemory::Way::kVmReadv);
  const auto gadget =
      find_syscall_gadget(AddressSpace(proc.maps(child)), MappedFiles(proc, child), memory);
  REQUIRE(gadget);
  CallerTask task;
  task.gadget = gadget->syscall_ret;
  std::vector<std::chrono::nanoseconds> pauses;
  TracerThread().run([&] {
    PriorityInheritance inheritance;
    CallerStop caller(proc, child, task, memory, inheritance);
    // On a busy machine a look takes as long.
    const auto look = [](const user_regs_struct&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      return true;
    };
    CHECK(!caller.try_leave(task, look));
    pauses = caller.pauses();
  });
  CHECK(pauses.size() > 10);
  const auto longest = *std::max_element(pauses.begin(), pauses.end());
  const std::chrono::nanoseconds gap(progress.longest_gap_ns.load());
  CAPTURE(longest.count());
  CHECK(gap < std::chrono::seconds(2));  // all the time that it is looked at is 5 s
  progress.may_end = true;
  CHECK(status_of(child) == 0);
  ::munmap(page, 4096);
}

}  // namespace heapsnap::live
