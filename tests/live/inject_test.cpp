// Does the tracker get into a running process, and out again, without harm? The targets watch
// themselves and tell.
#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/live/checks.h"
#include "tests/live/forked_child.h"
#include "tests/live/injection_probe.h"
#include "tests/live/live_target.h"
#include "tools/inject/tracking.h"
#include "tools/inject/trim.h"
#include "tools/tracker_image/tracker_image.h"

namespace heapsnap::live {

namespace {

using Command = std::vector<std::string>;

const Command kMallocChurn{MALLOC_CHURN, "3"};
const Command kLoaderChurn{INJECTED_PROFILE, "dlopen", NAMESPACE_BLOCKS};
const Command kExceptions{INJECTED_PROFILE, "throw"};
const Command kArenas{INJECTED_PROFILE, "arenas"};
const Command kOneThread{"/usr/bin/env", "MALLOC_ARENA_MAX=1", MALLOC_CHURN, "0"};

constexpr std::chrono::milliseconds kLongestBorrowed{1};
// An only thread is stopped until the injected one is done.
constexpr std::chrono::milliseconds kLongestHeld{20};
constexpr int kManyRounds = 1000;

void check_standstill(const char* what, const Command& command, const StandstillTimes& times) {
  MESSAGE(std::string(what), ": ", times.summary());
  // A handful of rounds says nothing about a median.
  if (scaled(0, 1) == 0) return;
  const bool is_held = command.back() == kOneThread.back();
  CHECK(times.median_borrowed() <= (is_held ? kLongestHeld : kLongestBorrowed));
}

// A process of its own for each injection; it runs on with the hooks for a while.
void inject_often(const char* what, const Command& command) {
  StandstillTimes times;
  const int rounds = scaled(4, kManyRounds);
  Progress progress(what, rounds);
  for (int i = 0; i < rounds; ++i, progress.step()) {
    LiveTarget target(command);
    const TrackingChange change = start_tracking(target.pid(), tracker_image(), {});
    for (const std::string& note : change.call.notes) FAIL_CHECK(note);
    CHECK(!change.was_loaded);
    CHECK(change.hooks.entry_points >= 8);
    times.add(change);
    CHECK(
        eventually([&] { return recorded_allocations(target.pid()) > 1000; }, kInjectionPatience));
    auto seen = target.finish();
    CHECK(target.exit_status() == 0);
    REQUIRE(seen.at("errors") == 0);
  }
  check_standstill(what, command, times);
}

// One process all the time. Its bindings are complete from the start, so they can be compared; code
// of a library that it loads and lets go cannot.
void inject_and_eject_often(const char* what, Command command) {
  command.insert(command.begin(), {"/usr/bin/env", "LD_BIND_NOW=1"});
  LiveTarget target(command);
  const MappedWords before = code_and_bindings(target.pid(), NAMESPACE_BLOCKS);
  REQUIRE(before.size() > 5);
  StandstillTimes times;
  const int rounds = scaled(8, kManyRounds);
  Progress progress(what, rounds);
  for (int i = 0; i < rounds; ++i, progress.step()) {
    const TrackingChange in = start_tracking(target.pid(), tracker_image(), {});
    CHECK(in.was_loaded == (i > 0));
    CHECK(changes_of(before, code_and_bindings(target.pid(), NAMESPACE_BLOCKS)) != "");
    const TrackingChange out = stop_tracking(target.pid(), tracker_image());
    CHECK(out.hooks.entry_points == in.hooks.entry_points);
    for (const std::string& note : out.notes) FAIL_CHECK(note);
    REQUIRE(changes_of(before, code_and_bindings(target.pid(), NAMESPACE_BLOCKS)) == "");
    times.add(in);
    times.add(out);
  }
  auto seen = target.finish();
  CHECK(target.exit_status() == 0);
  CHECK(seen.at("errors") == 0);
  check_standstill(what, command, times);
}

}  // namespace

TEST_CASE("the tracker gets into a process that allocates") {
  inject_often("malloc churn", kMallocChurn);
}
TEST_CASE("the tracker gets into a process that loads libraries") {
  inject_often("dlopen churn", kLoaderChurn);
}
TEST_CASE("the tracker gets into a process that throws") {
  inject_often("exceptions", kExceptions);
}
TEST_CASE("the tracker gets into a process whose threads come and go") {
  inject_often("nine fresh arenas", kArenas);
}
TEST_CASE("the tracker gets into a process with one thread") {
  inject_often("one thread", kOneThread);
}

// By this word glibc's malloc takes chunks off a fastbin with a locked instruction or without.
TEST_CASE("the only thread of a process locks from the first other thread on") {
  for (const bool is_tracked : {false, true}) {
    LiveTarget target({LONE_SLEEPER});
    if (is_tracked) start_tracking(target.pid(), tracker_image(), {});
    CHECK(target.finish().at("locks") == (is_tracked ? 1 : 0));
  }
}

TEST_CASE("ejected, it leaves nothing in code and bindings: a process that allocates") {
  inject_and_eject_often("malloc churn, in and out", kMallocChurn);
}
TEST_CASE("ejected, it leaves nothing in code and bindings: a process that loads libraries") {
  inject_and_eject_often("dlopen churn, in and out", kLoaderChurn);
}
TEST_CASE("ejected, it leaves nothing in code and bindings: a process that throws") {
  inject_and_eject_often("exceptions, in and out", kExceptions);
}
TEST_CASE("ejected, it leaves nothing in code and bindings: threads that come and go") {
  inject_and_eject_often("nine fresh arenas, in and out", kArenas);
}
TEST_CASE("ejected, it leaves nothing in code and bindings: one thread") {
  inject_and_eject_often("one thread, in and out", kOneThread);
}

namespace {

constexpr unsigned kLongestCycle = 60;  // seconds

// Injects and ejects in a process of its own, which is killed when that hangs once.
pid_t start_cycles(pid_t target, int rounds) {
  return run_in_child([=] {
    for (int i = 0; i < rounds; ++i) {
      ::alarm(kLongestCycle);
      start_tracking(target, tracker_image(), {});
      stop_tracking(target, tracker_image());
    }
    return 0;
  });
}

// For this process and what it starts.
class OnOneProcessor {
 public:
  OnOneProcessor() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  }
  OnOneProcessor(const OnOneProcessor&) = delete;
  OnOneProcessor& operator=(const OnOneProcessor&) = delete;
  ~OnOneProcessor() { ::sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

}  // namespace

// A target that is lent priority must not keep the processor from those who can stop it.
TEST_CASE("a target that is busy on the only processor lets heapsnap work") {
  const OnOneProcessor here;
  for (const char* threads : {"0", "3"}) {
    CAPTURE(std::string(threads));
    LiveTarget target({MALLOC_CHURN, threads, "greedy"});
    CHECK(status_of(start_cycles(target.pid(), scaled(5, 300))) == 0);
    CHECK(target.finish().at("errors") == 0);
  }
}

TEST_CASE("targets that are busy on all processors can be tracked at the same time") {
  const size_t count = std::max(2U, std::thread::hardware_concurrency());
  std::vector<std::unique_ptr<LiveTarget>> targets;
  std::vector<pid_t> injectors;
  Command greedy = kOneThread;
  greedy.push_back("greedy");
  for (size_t i = 0; i < count; ++i) targets.push_back(std::make_unique<LiveTarget>(greedy));
  for (const auto& target : targets) {
    injectors.push_back(start_cycles(target->pid(), scaled(5, 300)));
  }
  for (const pid_t injector : injectors) CHECK(status_of(injector) == 0);
  for (const auto& target : targets) CHECK(target->finish().at("errors") == 0);
}

TEST_CASE("a second inject changes the options of the first") {
  LiveTarget target({MALLOC_CHURN, "2"});
  const TrackingChange first = start_tracking(target.pid(), tracker_image(), {});
  REQUIRE(first.directory);
  TrackingOptions options;
  options.sample_bytes = 4096;
  options.max_frames = 7;
  const TrackingChange change = start_tracking(target.pid(), tracker_image(), options);
  CHECK(change.was_loaded);
  CHECK(change.was_recording);
  CHECK(change.has_new_options);
  CHECK(change.hooks.entry_points == 0);
  REQUIRE(change.directory);
  CHECK(change.directory->sample_bytes == 4096);
  CHECK(change.directory->max_frames == 7);
  CHECK(change.directory->start_count == first.directory->start_count + 1);
  // The counters are of the time since then.
  CHECK(change.directory->started_monotonic_ns == first.directory->started_monotonic_ns);
  CHECK(target.finish().at("errors") == 0);
}

TEST_CASE("a second inject with the options of the first changes nothing") {
  TrackingOptions bounded;
  bounded.memory_limit = tracker::least_memory_limit(bounded.max_frames);
  for (const TrackingOptions& options : {TrackingOptions{}, TrackingOptions{4096, 0, 0}, bounded}) {
    CAPTURE(options.sample_bytes);
    LiveTarget target({MALLOC_CHURN, "2"});
    const TrackingChange first = start_tracking(target.pid(), tracker_image(), options);
    REQUIRE(first.directory);
    CHECK_FALSE(first.has_new_options);
    const TrackingChange second = start_tracking(target.pid(), tracker_image(), options);
    REQUIRE(second.directory);
    CHECK(second.was_recording);
    CHECK_FALSE(second.has_new_options);
    CHECK(second.directory->start_count == first.directory->start_count);
    CHECK(second.directory->started_monotonic_ns == first.directory->started_monotonic_ns);
    stop_tracking(target.pid(), tracker_image());
    const TrackingChange third = start_tracking(target.pid(), tracker_image(), options);
    REQUIRE(third.directory);
    CHECK_FALSE(third.has_new_options);
    CHECK(third.directory->started_monotonic_ns > first.directory->started_monotonic_ns);
    CHECK(target.finish().at("errors") == 0);
  }
}

TEST_CASE("memory is trimmed on a thread of which nothing stays") {
  for (const char* threads : {"0", "3"}) {
    CAPTURE(std::string(threads));
    LiveTarget target({MALLOC_CHURN, threads});
    const Footprint before = footprint_of(target.pid());
    for (int i = 0; i < scaled(10, 1000); ++i) {
      const TrimResult result = trim_process(target.pid());
      for (const std::string& note : result.call.notes) FAIL_CHECK(note);
      CHECK(result.anonymous_before > 0);
    }
    const bool is_as_before = eventually(
        [&] {
          const Footprint now = footprint_of(target.pid());
          return now.blocked_signals == before.blocked_signals && now.tracer == 0 &&
                 now.descriptors == before.descriptors;
        },
        kInjectionPatience);
    CHECK_MESSAGE(is_as_before, difference(before, footprint_of(target.pid())));
    CHECK(target.finish().at("errors") == 0);
  }
}

}  // namespace heapsnap::live
