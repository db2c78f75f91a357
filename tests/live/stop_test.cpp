// Threads that do not stop when they should, or that nobody may stop. The targets are forked from
// this program.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "base/error.h"
#include "platform/linux/proc/mapped_files.h"
#include "platform/linux/proc/process_memory.h"
#include "platform/linux/remote_call/caller_choice.h"
#include "platform/linux/self/realtime_priority.h"
#include "platform/linux/trace/tracer_thread.h"
#include "tests/live/checks.h"
#include "tests/live/forked_child.h"
#include "tests/live/served_page.h"

namespace heapsnap::live {

namespace {

constexpr size_t kPageSize = 4096;
constexpr std::chrono::seconds kDeadline{20};

// Makes io_uring(7) have a worker, which stays for seconds.
bool make_worker() {
  io_uring_params parameters{};
  const auto ring = static_cast<int>(::syscall(SYS_io_uring_setup, 1, &parameters));
  if (ring < 0) return false;
  const auto map = [ring](size_t size, off_t what) {
    return static_cast<char*>(
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what));
  };
  char* const queue = map(parameters.sq_off.array + sizeof(unsigned), IORING_OFF_SQ_RING);
  auto* const entry = reinterpret_cast<io_uring_sqe*>(map(sizeof(io_uring_sqe), IORING_OFF_SQES));
  *entry = {};
  entry->opcode = IORING_OP_NOP;
  entry->flags = IOSQE_ASYNC;
  *reinterpret_cast<unsigned*>(queue + parameters.sq_off.array) = 0;
  __atomic_store_n(reinterpret_cast<unsigned*>(queue + parameters.sq_off.tail), 1U,
                   __ATOMIC_RELEASE);
  return ::syscall(SYS_io_uring_enter, ring, 1, 0, 0, nullptr, 0) == 1;
}

constexpr int kNotToBeHad = 77;

volatile sig_atomic_t has_signal = 0;

// One thread reads a page that another serves when it is told to. "Ready" when the read waits, or
// when there is no such page: then it ends with kNotToBeHad.
pid_t run_page_reader(const Line& ready, const Line& serve) {
  return run_in_child([&] {
    const ServedPage page;
    if (!page.is_ready()) {
      ready.pass();
      return kNotToBeHad;
    }
    bool is_served = false;
    std::thread server(
        [&] { is_served = page.await_fault() && ready.pass() && serve.wait() && page.serve(); });
    const bool is_filled = page.fill_by_read();
    server.join();
    return is_filled && is_served ? 0 : 1;
  });
}

bool check_reader(int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotToBeHad) {
    MESSAGE("skipped: no userfaultfd(2) for pages that the kernel touches");
    return false;
  }
  CHECK(status == 0);
  return true;
}

// Leaves its status to be waited for, and a stop that comes late to whoever lets the child go.
bool is_at_its_end(pid_t child) {
  siginfo_t report{};
  ::waitid(P_PID, static_cast<id_t>(child), &report, WEXITED | WNOHANG | WNOWAIT);
  return report.si_pid == child && report.si_code != CLD_TRAPPED && report.si_code != CLD_STOPPED;
}

}  // namespace

TEST_CASE("a process that is killed while one of its threads is awaited has ended") {
  const pid_t child = run_in_child([] {
    std::thread([] {
      while (true) ::pause();
    }).detach();
    while (true) ::pause();
    return 0;
  });
  REQUIRE(eventually([&] { return ProcFs().task_list(child).size() == 2; }));
  TracerThread tracer;
  tracer.run([&] {
    PtraceSession session(ProcFs(), child);
    PriorityInheritance inheritance;
    session.seize_all();
    session.stop_all(TraceClock::now() + kDeadline, inheritance);
    REQUIRE(session.tracees().size() == 2);
    for (Tracee& tracee : session.tracees()) {
      if (tracee.tid() == child) REQUIRE(tracee.resume());
    }
    REQUIRE(::kill(child, SIGKILL) == 0);
    ErrorKind kind = ErrorKind::kInternal;
    try {
      session.stop_new(TraceClock::now() + kDeadline);
    } catch (const Error& error) {
      kind = error.kind();
    }
    CHECK(kind == ErrorKind::kNoProcess);
  });
}

TEST_CASE("a session that has interrupted nothing has stopped nothing") {
  PtraceSession session(ProcFs(), ::getpid());
  CHECK(session.pause() == std::chrono::nanoseconds(0));
  session.release();
  CHECK(session.pause() == std::chrono::nanoseconds(0));
}

TEST_CASE("a thread that waits for a page of a stopped thread does not keep the others stopped") {
  const Line ready;
  const Line serve;
  const pid_t child = run_page_reader(ready, serve);
  REQUIRE(ready.wait());
  std::string notes;
  try {
    FreezeOptions options = choose(FreezeChoice::kStop);
    options.deadline = kDeadline;
    FrozenProcess frozen(child, options);
    frozen.thaw();
    notes = notes_of(frozen.record());
  } catch (const Error& error) {
    notes = error.what();
  }
  CHECK(serve.pass());
  if (!check_reader(status_of(child))) return;
  CHECK(notes.find("1 thread was in a system call that cannot be interrupted") == 0);
}

TEST_CASE("a thread that stops late is let go while the tracing thread waits for another") {
  const Line ready;
  const Line serve;
  const Line end;
  const pid_t reader = run_page_reader(ready, serve);
  const pid_t other = run_in_child([&end] { return end.wait() ? 0 : 1; });
  REQUIRE(ready.wait());
  bool has_ended = false;
  TracerThread().run([&] {
    {
      const RealtimePriority priority;
      PriorityInheritance inheritance;
      PtraceSession session(ProcFs(), reader);
      session.seize_all();
      session.stop_all(TraceClock::now() + kDeadline, inheritance);
    }
    serve.pass();
    Tracee never_stops(other, other);
    const auto deadline = TraceClock::now() + kDeadline;
    if (never_stops.seize() != 0) return;
    while (!has_ended && TraceClock::now() < deadline) {
      never_stops.wait(TraceClock::now() + std::chrono::milliseconds(5));
      has_ended = is_at_its_end(reader);
    }
  });
  CHECK(has_ended);
  check_reader(status_of(reader));
  CHECK(end.pass());
  CHECK(status_of(other) == 0);
}

TEST_CASE("a thread that stops late stays stopped for the next one who stops it") {
  const Line ready;
  const Line serve;
  const Line end;
  const pid_t reader = run_page_reader(ready, serve);
  const pid_t other = run_in_child([&end] { return end.wait() ? 0 : 1; });
  REQUIRE(ready.wait());
  bool all_stand = false;
  TracerThread().run([&] {
    const RealtimePriority priority;
    PriorityInheritance inheritance;
    const auto deadline = TraceClock::now() + kDeadline;
    {
      PtraceSession session(ProcFs(), reader);
      session.seize_all();
      session.stop_all(deadline, inheritance);
    }
    PtraceSession session(ProcFs(), reader);
    session.seize_all();
    serve.pass();
    if (!eventually([reader] { return ProcFs().stat(reader).state == 't'; })) return;
    session.stop_all(deadline, inheritance);
    Tracee never_stops(other, other);
    if (never_stops.seize() != 0) return;
    never_stops.wait(TraceClock::now() + std::chrono::milliseconds(20));
    all_stand = std::all_of(
        session.tracees().begin(), session.tracees().end(),
        [](const Tracee& tracee) { return tracee.is_gone() || tracee.is_still_stopped(); });
    session.release();
  });
  check_reader(status_of(reader));
  CHECK(all_stand);
  CHECK(end.pass());
  CHECK(status_of(other) == 0);
}

TEST_CASE("a thread that a timer's signals stop runs between them") {
  constexpr int kSlices = 10;
  void* const page =
      ::mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  auto& count = *new (page) std::atomic<uint64_t>(0);
  const Line ready;
  const pid_t child = run_in_child([&] {
    ::signal(SIGUSR1, [](int) { has_signal = 1; });
    ::signal(SIGALRM, [](int) {});
    constexpr timeval kPeriod{0, 20'000};
    constexpr itimerval kTimer{kPeriod, kPeriod};
    if (::setitimer(ITIMER_REAL, &kTimer, nullptr) != 0 || !ready.pass()) return 1;
    while (has_signal == 0) ++count;
    return 0;
  });
  REQUIRE(ready.wait());
  int slices_used = 0;
  TracerThread().run([&] {
    PtraceSession session(ProcFs(), child);
    Tracee* const thread = session.stop_one(child, TraceClock::now() + kDeadline);
    for (int i = 0; i < kSlices && thread != nullptr; ++i) {
      const uint64_t before = count;
      if (!session.let_run(*thread, std::chrono::milliseconds(100),
                           TraceClock::now() + kDeadline)) {
        break;
      }
      slices_used += count > before;
    }
    session.release();
  });
  CHECK(slices_used > kSlices / 2);
  ::kill(child, SIGUSR1);
  CHECK(status_of(child) == 0);
  ::munmap(page, kPageSize);
}

TEST_CASE("a worker of io_uring is neither stopped nor made to call anything") {
  const Line ready;
  const Line end;
  const pid_t child = run_in_child([&] {
    const bool has_worker = make_worker();
    if (!ready.pass() || !end.wait()) return 1;
    return has_worker ? 0 : kNotToBeHad;
  });
  REQUIRE(ready.wait());
  const bool has_worker = eventually([child] { return ProcFs().task_list(child).size() == 2; },
                                     std::chrono::seconds(2));
  FrozenProcess frozen(child, choose(FreezeChoice::kFork));
  CHECK(frozen.record().method == FreezeMethod::kFork);
  CHECK(frozen.record().threads == 1);
  frozen.thaw();
  CHECK(notes_of(frozen.record()) == "");
  CHECK(end.pass());
  const int status = status_of(child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotToBeHad) {
    MESSAGE("skipped: no io_uring(7)");
    return;
  }
  CHECK(has_worker);
  CHECK(status == 0);
}

TEST_CASE("a caller whose clone is refused waits on in its own call") {
  const Line ready;
  const Line end;
  const pid_t child = run_in_child([&] {
    const int poller = ::epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    event.events = EPOLLIN;
    if (::epoll_ctl(poller, EPOLL_CTL_ADD, end.reading_end(), &event) != 0 || !ready.pass())
      return 1;
    return ::epoll_wait(poller, &event, 1, -1) == 1 ? 0 : 1;
  });
  REQUIRE(ready.wait());
  REQUIRE(eventually([child] { return ProcFs().stat(child).state == 'S'; }));
  auto outcome = StoppedCaller::Outcome::kGone;
  TracerThread().run([&] {
    const ProcFs proc;
    const RealtimePriority priority;
    PriorityInheritance inheritance;
    ProcessMemory memory(proc, child, ProcessMemory::Way::kProcMem);
    const auto gadget =
        find_syscall_gadget(AddressSpace(proc.maps(child)), MappedFiles(proc, child), memory);
    PtraceSession session(proc, child);
    session.seize_all();
    session.stop_all(TraceClock::now() + kDeadline, inheritance);
    // CLONE_THREAD without CLONE_SIGHAND: EINVAL.
    const SystemCall refused{SYS_clone, {CLONE_THREAD, 0, 0, 0, 0, 0}};
    CallerTask task;
    task.calls = {refused};
    std::string why_not;
    if (gadget) task.gadget = gadget->syscall_ret;
    const auto chosen = choose_caller(proc, child, session.tracees(), task, why_not);
    if (!gadget || !chosen) return;
    StoppedCaller caller(session.tracees()[chosen->index], *gadget, chosen->frame_top);
    outcome = caller.clone(refused, TraceClock::now() + kDeadline);
    caller.give_back();
  });
  CHECK(outcome == StoppedCaller::Outcome::kRefused);
  CHECK(end.pass());
  CHECK(status_of(child) == 0);
}

}  // namespace heapsnap::live
