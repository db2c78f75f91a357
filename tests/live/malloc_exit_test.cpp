// Threads that stop inside the allocator with a signal pending, or have to wait on their way out.
//
// The targets are forked from this program, so what stands for the allocator's code is known.
#include "platform/linux/freeze/malloc_exit.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "platform/linux/proc/process_memory.h"
#include "platform/linux/self/realtime_priority.h"
#include "platform/linux/trace/tracer_thread.h"
#include "tests/live/checks.h"
#include "tests/live/forked_child.h"
#include "tests/live/served_page.h"

extern "C" {
// Of the section that what stands for the allocator is alone in; defined by the linker.
extern const char __start_inside_malloc[];  // NOLINT(bugprone-reserved-identifier)
extern const char __stop_inside_malloc[];   // NOLINT(bugprone-reserved-identifier)
}

namespace heapsnap::live {

namespace {

constexpr size_t kPageBytes = 4096;
constexpr std::chrono::seconds kLongestExit{20};

volatile sig_atomic_t may_leave = 0;

__attribute__((noinline, section("inside_malloc"))) void spin_inside(volatile int& is_inside) {
  is_inside = 1;
  while (may_leave == 0) {
  }
}

__attribute__((noinline)) void spin_outside(volatile int& is_outside) {
  is_outside = 1;
  while (may_leave == 0) {
  }
}

// As calloc() has memory cleared.
__attribute__((noinline, section("inside_malloc"))) void call_outside(volatile int& is_outside) {
  spin_outside(is_outside);
  asm volatile("");  // so that the call is not a jump
}

// A call of the allocator that takes some thousand instructions.
__attribute__((noinline, section("inside_malloc"))) void work_inside() {
  constexpr int kRounds = 1000;
  for (int i = 0; i < kRounds; ++i) asm volatile("");
}

// As malloc_trim() does for thousands of free chunks.
__attribute__((noinline, section("inside_malloc"))) void trim_inside(void* page) {
  while (true) ::madvise(page, kPageBytes, MADV_DONTNEED);
}

MallocText inside() {
  return {{Address(reinterpret_cast<uint64_t>(__start_inside_malloc)),
           Address(reinterpret_cast<uint64_t>(__stop_inside_malloc))}};
}

// Children that run as long as this exists.
class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children() {
    for (const pid_t pid : pids_) {
      ::kill(pid, SIGKILL);
      status_of(pid);
    }
  }
  pid_t start(const std::function<void()>& work) {
    pids_.push_back(run_in_child([&work]() -> int {
      while (true) work();
    }));
    return pids_.back();
  }

 private:
  std::vector<pid_t> pids_;
};

void on_signal(int /*signal*/) {
  may_leave = 1;
}

// Stops `child`, has `signals` pending for it, and runs its threads out.
MallocExit run_out_with_pending(pid_t child, std::initializer_list<int> signals) {
  MallocExit exit;
  TracerThread tracer;
  tracer.run([&] {
    const RealtimePriority priority;
    PriorityInheritance inheritance;
    PtraceSession session(ProcFs(), child);
    ProcessMemory memory(ProcFs(), child, ProcessMemory::Way::kProcMem);
    session.seize_all();
    const auto deadline = TraceClock::now() + kLongestExit;
    session.stop_all(deadline, inheritance);
    for (const int signal : signals) ::kill(child, signal);
    exit = run_out_in_target(inside(), session, memory, inheritance, deadline, deadline);
    session.release();
  });
  return exit;
}

// A child that is inside until SIGUSR1 comes, and then does what `then` says.
pid_t run_inside(const std::function<bool()>& then) {
  void* const page =
      ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  volatile int& is_inside = *static_cast<volatile int*>(page);
  const pid_t child = run_in_child([&] {
    ::signal(SIGTERM, SIG_DFL);  // doctest has a handler
    ::signal(SIGQUIT, SIG_IGN);
    ::signal(SIGUSR1, on_signal);
    spin_inside(is_inside);
    return then() ? 0 : 1;
  });
  REQUIRE(eventually([&] { return is_inside == 1; }));
  ::munmap(page, kPageBytes);
  return child;
}

// Of the copies that are made of a child that stays inside.
int least_nice_of_copy(pid_t child) {
  FreezeOptions options = choose(FreezeChoice::kFork);
  options.malloc_text = inside();
  std::atomic<bool> is_frozen{false};
  int least = 19;
  std::thread watcher([&] {
    while (!is_frozen) {
      std::ifstream children(ProcFs().path(child, "task/" + std::to_string(child) + "/children"));
      for (id_t copy = 0; children >> copy;) {
        errno = 0;
        const int nice = ::getpriority(PRIO_PROCESS, copy);
        if (errno == 0) least = std::min(least, nice);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  FrozenProcess frozen(child, options);
  is_frozen = true;
  watcher.join();
  frozen.thaw();
  return least;
}

}  // namespace

TEST_CASE("a thread that leaves the allocator and waits for such a page does not, either") {
  const Line serve;
  const pid_t child = run_inside([&] {
    const ServedPage page;
    if (!page.is_ready()) return true;
    std::thread([&] {
      if (page.await_fault() && serve.wait()) page.serve();
    }).detach();
    return page.fill_by_read();
  });
  CHECK_NOTHROW(run_out_with_pending(child, {SIGUSR1}));
  CHECK(serve.pass());
  CHECK(status_of(child) == 0);
}

TEST_CASE("signals that are ignored or handled do not keep a thread inside the allocator") {
  const Line end;
  const pid_t child = run_inside([&end] { return end.wait(); });
  const MallocExit exit = run_out_with_pending(child, {SIGQUIT, SIGUSR1});
  CHECK(exit.still_inside.empty());
  for (const StuckThread& each : exit.still_inside) MESSAGE(each.why, " at ", each.at);
  CHECK(exit.steps > 2);  // each signal stopped it
  CHECK(end.pass());
  CHECK(status_of(child) == 0);
}

TEST_CASE("where a thread had no time to leave the allocator, a longer deadline gives it more") {
  const Line end;
  const pid_t child = run_inside([&end] { return end.wait(); });
  FreezeOptions options = choose(FreezeChoice::kStop);
  options.malloc_text = inside();
  options.deadline = std::chrono::milliseconds(100);
  FrozenProcess hasty(child, options);
  hasty.thaw();
  CHECK(notes_of(hasty.record()).find("--deadline passed after 100 ms: a longer one") !=
        std::string::npos);
  options.deadline = kLongestExit;
  std::thread leaver([child] {
    CHECK(eventually([child] { return ProcFs().stat(child).state == 't'; }));
    ::kill(child, SIGUSR1);
  });
  FrozenProcess patient(child, options);
  patient.thaw();
  leaver.join();
  CHECK(notes_of(patient.record()).find("inside malloc") == std::string::npos);
  CHECK(notes_of(patient.record()).find("--deadline") == std::string::npos);
  CHECK(end.pass());
  CHECK(status_of(child) == 0);
}

TEST_CASE(
    "a thread that copies memory for the allocator is not inside when others took all the time") {
  void* const page =
      ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  volatile int* const are_there = static_cast<volatile int*>(page);
  const pid_t child = run_in_child([&] {
    ::signal(SIGUSR1, on_signal);
    std::thread beside([&] { call_outside(are_there[1]); });
    spin_inside(are_there[0]);
    beside.join();
    return 0;
  });
  REQUIRE(eventually([&] { return are_there[0] == 1 && are_there[1] == 1; }));
  FreezeOptions options = choose(FreezeChoice::kFork);
  options.malloc_text = inside();
  FrozenProcess frozen(child, options);
  frozen.thaw();
  CHECK(frozen.record().threads_in_malloc == 2);
  CHECK(notes_of(frozen.record()).find("1 thread was inside malloc") != std::string::npos);
  ::kill(child, SIGUSR1);
  CHECK(status_of(child) == 0);
  ::munmap(page, kPageBytes);
}

TEST_CASE("a thread that tells the kernel which memory is free has nothing half done") {
  void* const page =
      ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  Children children;
  const pid_t child = children.start([page] { trim_inside(page); });
  for (const FreezeChoice choice : {FreezeChoice::kFork, FreezeChoice::kStop}) {
    FreezeOptions options = choose(choice);
    options.malloc_text = inside();
    for (int i = 0; i < 20; ++i) {
      FrozenProcess frozen(child, options);
      frozen.thaw();
      CHECK(notes_of(frozen.record()) == "");
    }
  }
  ::munmap(page, kPageBytes);
}

TEST_CASE("where others keep all processors busy, a copy is stepped in bursts") {
  if (!gets_realtime_priority()) {
    MESSAGE("skipped: this process gets no real-time priority");
    return;
  }
  constexpr int kLowest = 19;
  constexpr unsigned kOfEach = 4;
  Children children;
  for (unsigned i = 0; i < kOfEach * std::thread::hardware_concurrency(); ++i) {
    children.start([] { asm volatile(""); });
  }
  const pid_t child = children.start(work_inside);
  REQUIRE(::setpriority(PRIO_PROCESS, static_cast<id_t>(child), kLowest) == 0);
  FreezeOptions options = choose(FreezeChoice::kFork);
  options.malloc_text = inside();
  size_t inside_malloc = 0;
  for (int i = 0; i < 5; ++i) {
    FrozenProcess frozen(child, options);
    frozen.thaw();
    inside_malloc += frozen.record().threads_in_malloc;
    CHECK(frozen.record().method == FreezeMethod::kFork);
    CHECK(notes_of(frozen.record()) == "");
  }
  CHECK(inside_malloc > 0);
}

TEST_CASE(
    "a copy that runs goes before busy threads, but not on a processor that is the only one") {
  const Line end;
  const pid_t child = run_inside([&end] { return end.wait(); });
  cpu_set_t all;
  REQUIRE(::sched_getaffinity(child, sizeof all, &all) == 0);
  if (CPU_COUNT(&all) > 1 && gets_realtime_priority()) CHECK(least_nice_of_copy(child) == -20);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (size_t i = 0; CPU_COUNT(&one) == 0; ++i) {
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  }
  REQUIRE(::sched_setaffinity(child, sizeof one, &one) == 0);
  CHECK(least_nice_of_copy(child) == ::getpriority(PRIO_PROCESS, static_cast<id_t>(child)));
  ::kill(child, SIGUSR1);
  CHECK(end.pass());
  CHECK(status_of(child) == 0);
}

TEST_CASE(
    "a signal that ends the process is delivered once it is let go, not while it is looked at") {
  const pid_t child = run_inside([] { return true; });
  const MallocExit exit = run_out_with_pending(child, {SIGTERM});
  CHECK(exit.still_inside.size() == 1);
  const int status = status_of(child);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM));
}

}  // namespace heapsnap::live
