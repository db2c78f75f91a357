// Does the only thread of a process stay out of the way while heapsnap's threads work in it, and
// is it let go if they wait for it?
#include <doctest/doctest.h>
#include <sys/syscall.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "platform/linux/inject/sole_thread_hold.h"
#include "tests/live/checks.h"
#include "tests/live/injection_probe.h"
#include "tests/live/live_target.h"
#include "tools/inject/c_library.h"
#include "tools/inject/library_load.h"
#include "tools/inject/running_program.h"
#include "tools/inject/tracking.h"
#include "tools/inject/trim.h"
#include "tools/tracker_image/tracker_image.h"

namespace heapsnap::live {

namespace {

constexpr std::chrono::milliseconds kShortSleep = SoleThreadHold::kLongestIdleness / 2;
constexpr std::chrono::milliseconds kLongSleep = SoleThreadHold::kLongestIdleness * 10;

// Makes a thread of its own sleep in the target. Returns for how long each thread was stopped.
std::vector<StolenTime> stops_for_sleep(pid_t pid, std::chrono::microseconds time) {
  return work_on(pid, [time](RunningProgram& program) {
    const CLibrary libc = CLibrary::find(program);
    return call_function(program, libc, libc.function("usleep"),
                         static_cast<uint64_t>(time.count()))
        .injection.stolen;
  });
}

std::chrono::nanoseconds longest_of(const std::vector<StolenTime>& stops) {
  std::chrono::nanoseconds longest{};
  for (const StolenTime& stop : stops) longest = std::max(longest, stop.duration);
  return longest;
}

}  // namespace

TEST_CASE("the only thread does not run until the injected one is gone") {
  LiveTarget target({LONE_SLEEPER});
  for (int i = 0; i < scaled(3, 100); ++i) {
    CHECK(longest_of(stops_for_sleep(target.pid(), kShortSleep)) >= kShortSleep);
  }
  CHECK(target.finish().at("errors") == 0);
}

TEST_CASE("the only thread runs again while the injected one waits for long") {
  LiveTarget target({LONE_SLEEPER});
  const auto longest = longest_of(stops_for_sleep(target.pid(), kLongSleep));
  CHECK(longest >= SoleThreadHold::kLongestIdleness);
  CHECK(longest < kLongSleep);
  CHECK(target.finish().at("errors") == 0);
}

TEST_CASE("an injected thread that is ended before it has finished is not waited for") {
  LiveTarget target({LONE_SLEEPER});
  const auto end_thread = [&target] {
    work_on(target.pid(), [](RunningProgram& program) {
      const CLibrary libc = CLibrary::find(program);
      return call_function(program, libc, libc.function("syscall"), uint64_t{SYS_exit});
    });
  };
  CHECK_THROWS_WITH_AS(end_thread(), doctest::Contains("was ended before it had finished"), Error);
  CHECK(target.finish().at("errors") == 0);
}

TEST_CASE("one of several threads runs on meanwhile") {
  LiveTarget target({MALLOC_CHURN, "3"});
  CHECK(longest_of(stops_for_sleep(target.pid(), kLongSleep)) < kLongSleep);
  CHECK(target.finish().at("errors") == 0);
}

TEST_CASE("a thread inside brk or sbrk is not used as the only one") {
  LiveTarget target({LONE_SLEEPER});
  work_on(target.pid(), [](RunningProgram& program) {
    const CLibrary libc = CLibrary::find(program);
    for (const char* name : {"brk", "sbrk"}) {
      CAPTURE(std::string(name));
      user_regs_struct registers{};
      registers.rip = libc.function(name).value() + 1;
      CHECK(libc.thread_layout().relies_on_being_alone(registers));
    }
    return 0;
  });
  CHECK(target.finish().at("errors") == 0);
}

// sbrk(2) takes no lock, and malloc calls it in the injected thread.
TEST_CASE("a program that calls sbrk beside malloc keeps its memory for itself") {
  for (int round = 0; round < scaled(4, 100); ++round) {
    CAPTURE(round);
    LiveTarget target({BREAK_MOVER});
    for (int i = 0; i < 5; ++i) {
      trim_process(target.pid());
      start_tracking(target.pid(), tracker_image(), {});
      stop_tracking(target.pid(), tracker_image());
    }
    auto seen = target.finish();
    CHECK(target.exit_status() == 0);
    CHECK(seen["errors"] == 0);
    CHECK(seen["pieces"] > 1000);
  }
}

}  // namespace heapsnap::live
