// Is a process unharmed by an injector that is killed, at random moments and after each of its
// acts?
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/live/checks.h"
#include "tests/live/forked_child.h"
#include "tests/live/injection_probe.h"
#include "tests/live/live_target.h"
#include "tests/live/stepped_process.h"
#include "tools/inject/tracking.h"
#include "tools/tracker_image/tracker_image.h"

namespace heapsnap::live {

namespace {

using Command = std::vector<std::string>;

// What an injector is at, for the test to see when it has killed it.
enum Activity : int { kStarting, kInjecting, kEjecting, kActivities };

class SharedActivity {
 public:
  SharedActivity()
      : page_(::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(page_ != MAP_FAILED);
    now_ = new (page_) std::atomic<int>(kStarting);
  }
  SharedActivity(const SharedActivity&) = delete;
  SharedActivity& operator=(const SharedActivity&) = delete;
  ~SharedActivity() { ::munmap(page_, sizeof(std::atomic<int>)); }

  std::atomic<int>& now() { return *now_; }

 private:
  void* page_;
  std::atomic<int>* now_;
};

void inject_and_eject(pid_t pid, std::atomic<int>& activity) {
  activity = kInjecting;
  start_tracking(pid, tracker_image(), {});
  activity = kEjecting;
  stop_tracking(pid, tracker_image());
}

void check_untouched(const LiveTarget& target) {
  REQUIRE(::kill(target.pid(), 0) == 0);
  REQUIRE(footprint_of(target.pid()).tracer == 0);
}

// A target that injectors died on can still be tracked, and is itself again afterwards.
void check_usable(const LiveTarget& target, const MappedWords& before) {
  start_tracking(target.pid(), tracker_image(), {});
  CHECK(eventually([&] { return recorded_allocations(target.pid()) > 1000; }, kInjectionPatience));
  stop_tracking(target.pid(), tracker_image());
  REQUIRE(changes_of(before, code_and_bindings(target.pid(), NAMESPACE_BLOCKS)) == "");
}

Command bound_at_start(Command command) {
  command.insert(command.begin(), {"/usr/bin/env", "LD_BIND_NOW=1"});
  return command;
}

void kill_at_random(const char* what, const Command& command) {
  LiveTarget target(bound_at_start(command));
  const MappedWords before = code_and_bindings(target.pid(), NAMESPACE_BLOCKS);
  std::mt19937_64 random(4711);
  check_usable(target, before);
  // Undisturbed, on this machine as busy as it is now.
  std::array<std::chrono::nanoseconds, kActivities> lengths{};
  const auto begin = std::chrono::steady_clock::now();
  start_tracking(target.pid(), tracker_image(), {});
  const auto middle = std::chrono::steady_clock::now();
  stop_tracking(target.pid(), tracker_image());
  lengths[kInjecting] = middle - begin;
  lengths[kEjecting] = std::chrono::steady_clock::now() - middle;
  std::array<int, kActivities> killed_at{};
  SharedActivity activity;
  const int rounds = scaled(15, 300);
  Progress progress(what, rounds);
  for (int i = 0; i < rounds; ++i, progress.step()) {
    activity.now() = kStarting;
    const pid_t injector = run_in_child([&]() -> int {
      while (true) inject_and_eject(target.pid(), activity.now());
    });
    const Activity wanted = i % 2 == 0 ? kInjecting : kEjecting;
    REQUIRE(eventually([&] { return activity.now() == wanted; }, kInjectionPatience));
    std::uniform_int_distribution<int64_t> moment(0, lengths[wanted].count());
    const int64_t delay = moment(random);
    const timespec time{delay / 1'000'000'000, delay % 1'000'000'000};
    ::nanosleep(&time, nullptr);  // the moment is what is tested
    ::kill(injector, SIGKILL);
    int status = 0;
    ::waitpid(injector, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    ++killed_at[static_cast<size_t>(activity.now())];
    check_untouched(target);
    if (i % 10 == 9) check_usable(target, before);
  }
  check_usable(target, before);
  check_end(target);
  MESSAGE(std::string(what), ": killed ", killed_at[kInjecting], " times while it injected, ",
          killed_at[kEjecting], " times while it ejected");
  CHECK(killed_at[kInjecting] > rounds / 10);
  CHECK(killed_at[kEjecting] > rounds / 10);
}

void kill_after_each_act(const Command& command) {
  LiveTarget target(bound_at_start(command));
  const MappedWords before = code_and_bindings(target.pid(), NAMESPACE_BLOCKS);
  const int stride = scaled(23, 1);
  std::atomic<int> activity{kStarting};
  int step = 1;
  while (kill_after_step(step, [&] { inject_and_eject(target.pid(), activity); })) {
    CAPTURE(step);
    check_untouched(target);
    step += stride;
  }
  MESSAGE("about ", step, " acts");
  CHECK(step > 30);
  check_usable(target, before);
  check_end(target);
}

constexpr unsigned kLongestInjection = 60;  // seconds
constexpr int kWorked = 0;
constexpr int kEnded = 3;
constexpr int kRefused = 4;
constexpr int kFailedOtherwise = 5;

int try_to_inject(pid_t pid) {
  ::alarm(kLongestInjection);  // kills it if it hangs
  try {
    start_tracking(pid, tracker_image(), {});
    stop_tracking(pid, tracker_image());
    return kWorked;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kNoProcess) return kEnded;
    std::fprintf(stderr, "%s\n", error.what());
    return error.kind() == ErrorKind::kUnsupported ? kRefused : kFailedOtherwise;
  }
}

}  // namespace

TEST_CASE("a target that is killed after any act of the injector is told to be gone") {
  for (const char* threads : {"2", "0"}) {
    const int stride = scaled(37, 1);
    std::optional<int> code = kEnded;
    int ended = 0;
    for (int step = 1; code; step += stride) {
      CAPTURE(step);
      LiveTarget target({MALLOC_CHURN, threads});
      code = act_after_step(
          step, [&] { return try_to_inject(target.pid()); },
          [&] {
            ::kill(target.pid(), SIGKILL);
            target.disown();
          });
      // The last acts come after all is done.
      if (code) CHECK((*code == kEnded || *code == kWorked));
      ended += code == kEnded ? 1 : 0;
    }
    MESSAGE("ended after ", ended, " acts");
    CHECK(ended > 5);
  }
}

// What was meant for the program before must not be written into the next.
TEST_CASE("a target that executes another program after any act of the injector is unharmed") {
  const int stride = scaled(13, 1);
  std::optional<int> code = kEnded;
  int ended = 0;
  const std::string script = std::string("echo ready; read line; exec ") + MALLOC_CHURN + " 2";
  for (int step = 1; code; step += stride) {
    CAPTURE(step);
    LiveTarget target({"/bin/sh", "-c", script});
    code = act_after_step(
        step, [&] { return try_to_inject(target.pid()); }, [&] { target.write_line("go"); });
    if (!code) break;
    CHECK(*code != kFailedOtherwise);
    ended += *code == kEnded ? 1 : 0;
    REQUIRE(target.read_line() == "ready");
    check_untouched(target);
    check_end(target);
  }
  MESSAGE("told of the end after ", ended, " acts");
  CHECK(ended > 0);
}

TEST_CASE("an injector that is killed at any moment harms nobody: a process that allocates") {
  kill_at_random("malloc churn", {MALLOC_CHURN, "3"});
}
TEST_CASE("an injector that is killed at any moment harms nobody: one thread") {
  kill_at_random("one thread", {MALLOC_CHURN, "0"});
}
TEST_CASE("an injector that is killed at any moment harms nobody: a process that loads libraries") {
  kill_at_random("dlopen churn", {INJECTED_PROFILE, "dlopen", NAMESPACE_BLOCKS});
}
TEST_CASE("an injector that is killed at any moment harms nobody: threads that come and go") {
  kill_at_random("nine fresh arenas", {INJECTED_PROFILE, "arenas"});
}

TEST_CASE("an injector that is killed after any of its acts harms nobody: three threads") {
  kill_after_each_act({MALLOC_CHURN, "2"});
}
TEST_CASE("an injector that is killed after any of its acts harms nobody: one thread") {
  kill_after_each_act({MALLOC_CHURN, "0"});
}

}  // namespace heapsnap::live
