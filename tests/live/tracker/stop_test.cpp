// Stopping while a thread is held at each instruction of a hook in turn, by single steps: wherever
// it stands, the tables must not be taken away under it. And what a pair of malloc and free costs,
// counted the same way.
//
// A forked child has two threads. One calls hooks all the time and is held and stepped; the other
// does what it is told through a pipe.
#include <doctest/doctest.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "tests/live/tracker/loaded_tracker.h"

namespace {

using Malloc = void* (*)(size_t);
using Free = void (*)(void*);

// What both processes see.
struct Shared {
  std::atomic<pid_t> worker;
  std::atomic<uint64_t> pairs;
};

struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() { REQUIRE(::pipe(ends) == 0); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
};

enum Command : char { kStop = 's', kStart = 'r', kLimit = 'l', kFill = 'f', kUsed = 'u' };

constexpr uint64_t kLimitBytes = 2 << 20;

class SteppedChild {
 public:
  explicit SteppedChild(const LoadedTracker& tracker)
      : malloc_(tracker.hook<Malloc>("malloc")),
        free_(tracker.hook<Free>("free")),
        shared_(static_cast<Shared*>(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                                            MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    REQUIRE((shared_ != MAP_FAILED));
    process_ = ::fork();
    if (process_ == 0) serve(tracker);
    // The worker tells when it is there.
    await_byte();
    REQUIRE(::ptrace(PTRACE_SEIZE, worker(), nullptr, PTRACE_O_EXITKILL) == 0);
  }
  SteppedChild(const SteppedChild&) = delete;
  SteppedChild& operator=(const SteppedChild&) = delete;
  ~SteppedChild() {
    ::kill(process_, SIGKILL);
    ::waitpid(worker(), nullptr, __WALL);
    ::waitpid(process_, nullptr, __WALL);
    ::munmap(shared_, sizeof(Shared));
  }

  pid_t worker() const { return shared_->worker; }

  void tell(Command command) const {
    const char byte = command;
    REQUIRE(::write(commands_.ends[1], &byte, 1) == 1);
  }
  int64_t answer() const {
    int64_t result = 0;
    REQUIRE(::read(answers_.ends[0], &result, sizeof result) == sizeof result);
    return result;
  }
  int64_t ask(Command command) const {
    tell(command);
    return answer();
  }
  // Nothing when the other thread waits, in its stop, for the worker to leave the hook.
  bool is_answered_while_held() const {
    while (true) {
      pollfd file{answers_.ends[0], POLLIN, 0};
      if (::poll(&file, 1, 1) == 1) return true;
      std::ifstream call("/proc/" + std::to_string(process_) + "/syscall");
      std::string number;
      call >> number;
      if (number == std::to_string(SYS_nanosleep)) return false;
    }
  }

  void hold() const {
    REQUIRE(::ptrace(PTRACE_INTERRUPT, worker(), nullptr, nullptr) == 0);
    await_stop();
  }
  void let_go() const { REQUIRE(::ptrace(PTRACE_CONT, worker(), nullptr, nullptr) == 0); }
  user_regs_struct registers() const {
    user_regs_struct registers{};
    if (::ptrace(PTRACE_GETREGS, worker(), nullptr, &registers) != 0) FAIL("no registers");
    return registers;
  }
  void step() const {
    if (::ptrace(PTRACE_SINGLESTEP, worker(), nullptr, nullptr) != 0) FAIL("cannot step");
    await_stop();
  }
  // To the first instruction of a hook.
  void step_to(uint64_t address) const {
    while (registers().rip != address) step();
  }
  uint64_t malloc_hook() const { return reinterpret_cast<uint64_t>(malloc_); }
  uint64_t free_hook() const { return reinterpret_cast<uint64_t>(free_); }

  // It goes on, unharmed.
  void check_goes_on() const {
    const uint64_t before = shared_->pairs;
    while (shared_->pairs < before + 4) {
      int status = 0;
      const pid_t stopped = ::waitpid(worker(), &status, __WALL | WNOHANG);
      const int signal = stopped == 0 ? 0 : WSTOPSIG(status);
      const uint64_t beyond_malloc = stopped == 0 ? 0 : registers().rip - malloc_hook();
      CAPTURE(beyond_malloc);
      REQUIRE(signal == 0);
      ::sched_yield();
    }
  }
  // Instructions of one pair, both calls with all that they call.
  int steps_of_a_pair() const {
    hold();
    step_to(malloc_hook());
    int steps = 0;
    bool is_at_free = false;
    for (;; ++steps) {
      step();
      const uint64_t at = registers().rip;
      is_at_free = is_at_free || at == free_hook();
      if (is_at_free && at == malloc_hook()) break;
    }
    let_go();
    return steps;
  }

 private:
  void await_byte() const {
    char byte = 0;
    REQUIRE(::read(answers_.ends[0], &byte, 1) == 1);
  }
  void await_stop() const {
    int status = 0;
    const bool is_stopped = ::waitpid(worker(), &status, __WALL) == worker() &&
                            WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
    if (!is_stopped) FAIL("the worker did not stop, status ", status);
  }

  [[noreturn]] void serve(const LoadedTracker& tracker) const {
    std::thread([this] { work(); }).detach();
    char command = 0;
    while (::read(commands_.ends[0], &command, 1) == 1) {
      const int64_t result = obey(tracker, static_cast<Command>(command));
      if (::write(answers_.ends[1], &result, sizeof result) != sizeof result) break;
    }
    ::_exit(0);
  }
  int64_t obey(const LoadedTracker& tracker, Command command) const {
    switch (command) {
      case kStop: return tracker.stop();
      case kStart: return tracker.try_start(0, 0);
      case kLimit: return tracker.try_start(0, kLimitBytes);
      case kFill:
        // Each in a page of slots of its own.
        for (int i = 0; i < 4096; ++i) static_cast<char*>(malloc_(32 << 10))[0] = 1;
        return 0;
      case kUsed: return static_cast<int64_t>(tracker.directory().memory_used);
    }
    return -EINVAL;
  }
  [[noreturn]] void work() const {
    shared_->worker = static_cast<pid_t>(::syscall(SYS_gettid));
    const char byte = 0;
    if (::write(answers_.ends[1], &byte, 1) != 1) ::_exit(1);
    for (;;) {
      free_(malloc_(40));
      ++shared_->pairs;
    }
  }

  Malloc malloc_;
  Free free_;
  Shared* shared_;
  Pipe commands_;
  Pipe answers_;
  pid_t process_ = -1;
};

struct Walk {
  int steps = 0;
  int waited = 0;  // stops that waited for the worker
};

// Holds the worker at instruction 0, stride, 2 * stride ... of a hook, has recording stopped there,
// and lets it go on. `is_first`: recording starts when the worker stands before the hook already,
// so that it goes the long way of a first event.
Walk stop_at_each_step(const SteppedChild& child, uint64_t hook, int stride, int most,
                       bool is_first) {
  Walk walk;
  for (int at = 0; at < most; at += stride) {
    CAPTURE(at);
    child.hold();
    child.step_to(hook);
    if (is_first) {
      REQUIRE(child.ask(kStop) == 0);
      REQUIRE(child.ask(kStart) == 0);
    }
    const uint64_t outside = child.registers().rsp;
    bool has_left = false;
    for (int i = 0; i < at && !has_left; ++i) {
      child.step();
      has_left = child.registers().rsp > outside;
    }
    child.tell(kStop);
    const bool is_answered = child.is_answered_while_held();
    child.let_go();
    if (!is_answered) ++walk.waited;
    CHECK(child.answer() == 0);
    child.check_goes_on();
    REQUIRE(child.ask(kStart) == 0);
    child.check_goes_on();
    ++walk.steps;
    if (has_left) break;
  }
  return walk;
}

bool is_long() {
  const char* const value = std::getenv("HEAPSNAP_LONG");
  return value != nullptr && *value == '1';
}

}  // namespace

TEST_CASE("a stop never takes the tables away under a thread in a hook") {
  const LoadedTracker tracker(0);
  const SteppedChild child(tracker);
  for (const uint64_t hook : {child.malloc_hook(), child.free_hook()}) {
    CAPTURE(hook);
    const Walk usual = stop_at_each_step(child, hook, 1, 4000, false);
    MESSAGE("stopped at ", usual.steps, " instructions, ", usual.waited, " times it waited");
    CHECK(usual.steps > 20);
    CHECK(usual.waited > 5);
    CHECK(usual.waited < usual.steps);
  }
  const Walk first = stop_at_each_step(child, child.malloc_hook(), is_long() ? 7 : 211,
                                       is_long() ? 20000 : 4500, true);
  MESSAGE("a first event: stopped at ", first.steps, " instructions, ", first.waited,
          " times it waited");
  CHECK(first.waited > 5);
}

TEST_CASE("where the tables may not grow, a pair costs less than to record it") {
  const LoadedTracker tracker(0);
  const SteppedChild child(tracker);
  child.check_goes_on();
  const int recorded = child.steps_of_a_pair();
  REQUIRE(child.ask(kLimit) == 0);
  REQUIRE(child.ask(kFill) == 0);
  CHECK(child.ask(kUsed) <= static_cast<int64_t>(kLimitBytes));
  child.check_goes_on();
  const int limited = child.steps_of_a_pair();
  REQUIRE(child.ask(kStop) == 0);
  child.check_goes_on();
  const int stopped = child.steps_of_a_pair();
  MESSAGE("instructions of a pair: ", recorded, " recorded, ", limited, " at the limit, ", stopped,
          " when stopped");
  CHECK(limited < recorded);
  // It goes on where there is room again.
  REQUIRE(child.ask(kStart) == 0);
  child.check_goes_on();
  CHECK(child.steps_of_a_pair() > limited);
}
