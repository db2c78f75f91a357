// Does the tracker get into a running process, and out again, without harm? The targets watch
// themselves and tell.
#include <doctest/doctest.h>
#include <link.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <thread>

#include "base/error.h"
#include "platform/linux/frozen_process.h"
#include "platform/linux/proc_fs.h"
#include "tests/live/live_target.h"
#include "tests/live/stepped_process.h"
#include "tools/inject/tracker_presence.h"
#include "tools/inject/tracking.h"
#include "tools/inject/trim.h"
#include "tools/tracker_image/tracker_image.h"

namespace heapsnap::live {

namespace {

struct Profile {
  const char* name;
  std::vector<std::string> command;
};

const Profile kMallocChurn{"malloc churn", {MALLOC_CHURN, "3"}};
const Profile kLoaderChurn{"dlopen churn", {INJECTED_PROFILE, "dlopen", NAMESPACE_BLOCKS}};
const Profile kExceptions{"exceptions", {INJECTED_PROFILE, "throw"}};
const Profile kArenas{"nine fresh arenas", {INJECTED_PROFILE, "arenas"}};
const Profile kOneThread{"one thread", {"/usr/bin/env", "MALLOC_ARENA_MAX=1", MALLOC_CHURN, "0"}};

// Bytes of all mapped code, and of the data that the loader has bound: whatever a hook could be in.
std::map<uint64_t, std::vector<std::byte>> code_and_bindings(pid_t pid) {
  const auto target = open_running_process(pid);
  std::map<uint64_t, std::vector<std::byte>> found;
  bool of_file = false;
  for (const Mapping& mapping : target->address_space().mappings()) {
    of_file = mapping.path.starts_with("/");
    const bool is_ours = mapping.path.find("heapsnap_tracker") != std::string::npos;
    const bool is_bound = !mapping.writable && mapping.readable;  // RELRO, constants, code
    if (!of_file || is_ours || !is_bound) continue;
    std::vector<std::byte> bytes(mapping.range.size());
    bytes.resize(target->memory().read(mapping.range.begin, bytes));
    found[mapping.range.begin.value()] = std::move(bytes);
  }
  return found;
}

std::chrono::nanoseconds median(std::vector<std::chrono::nanoseconds> times) {
  REQUIRE(!times.empty());
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

void add_stolen(const TrackingChange& change, std::vector<std::chrono::nanoseconds>& times) {
  for (const StolenTime& stolen : change.call.stolen) times.push_back(stolen.duration);
}

template <typename Condition>
bool eventually(Condition done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::sched_yield();
  }
  return true;
}

uint64_t recorded_allocations(pid_t pid) {
  const auto target = open_running_process(pid);
  const CLibrary libc = CLibrary::find(*target);
  const auto tracker = find_tracker(*target, libc, tracker_image());
  const auto directory = tracker ? read_tracker_directory(*target, *tracker) : std::nullopt;
  if (!directory) return 0;
  uint64_t sum = 0;
  const auto chunk = target->memory().read_value<uint64_t>(Address(directory->threads.chunks));
  for (uint64_t i = 0; chunk && i < std::min<uint64_t>(directory->threads.count, 64); ++i) {
    const auto record = target->memory().read_value<tracker::ThreadRecord>(
        Address(*chunk + i * directory->threads.entry_size));
    if (record) sum += record->allocations;
  }
  return sum;
}

}  // namespace

namespace {

// A process of its own for each injection.
void inject_often(const Profile& profile) {
  std::vector<std::chrono::nanoseconds> stolen;
  for (int i = 0; i < scaled(4, 1000); ++i) {
    LiveTarget target(profile.command);
    const TrackingChange change = start_tracking(target.pid(), tracker_image(), {});
    for (const std::string& note : change.call.notes) FAIL_CHECK(note);
    CHECK(!change.was_loaded);
    CHECK(change.hooks.entry_points >= 8);
    add_stolen(change, stolen);
    if (i == 0) CHECK(eventually([&] { return recorded_allocations(target.pid()) > 1000; }));
    auto seen = target.finish();
    CHECK(target.exit_status() == 0);
    REQUIRE(seen.at("errors") == 0);
  }
  MESSAGE(std::string(profile.name), ": one thread stood for ", median(stolen).count() / 1000,
          " us in the median of ", stolen.size());
}

void inject_and_eject_often(const Profile& profile) {
  LiveTarget target(profile.command);
  const auto before = code_and_bindings(target.pid());
  REQUIRE(before.size() > 5);
  for (int i = 0; i < scaled(8, 1000); ++i) {
    const TrackingChange in = start_tracking(target.pid(), tracker_image(), {});
    CHECK(in.was_loaded == (i > 0));
    CHECK(code_and_bindings(target.pid()) != before);
    const TrackingChange out = stop_tracking(target.pid(), tracker_image());
    CHECK(out.hooks.entry_points == in.hooks.entry_points);
    for (const std::string& note : out.notes) FAIL_CHECK(note);
    auto after = code_and_bindings(target.pid());
    std::erase_if(after, [&](const auto& each) { return !before.contains(each.first); });
    REQUIRE(after == before);
  }
  auto seen = target.finish();
  CHECK(target.exit_status() == 0);
  CHECK(seen.at("errors") == 0);
}

}  // namespace

TEST_CASE("the tracker gets into a process that allocates") {
  inject_often(kMallocChurn);
}
TEST_CASE("the tracker gets into a process that loads libraries") {
  inject_often(kLoaderChurn);
}
TEST_CASE("the tracker gets into a process that throws") {
  inject_often(kExceptions);
}
TEST_CASE("the tracker gets into a process whose threads come and go") {
  inject_often(kArenas);
}
TEST_CASE("the tracker gets into a process with one thread") {
  inject_often(kOneThread);
}

// Code of the loader's profile comes and goes, so it cannot be compared.
TEST_CASE("ejected, it leaves nothing in code and bindings: a process that allocates") {
  inject_and_eject_often(kMallocChurn);
}
TEST_CASE("ejected, it leaves nothing in code and bindings: a process that throws") {
  inject_and_eject_often(kExceptions);
}
TEST_CASE("ejected, it leaves nothing in code and bindings: threads that come and go") {
  inject_and_eject_often(kArenas);
}
TEST_CASE("ejected, it leaves nothing in code and bindings: one thread") {
  inject_and_eject_often(kOneThread);
}

TEST_CASE("a second inject changes the options of the first") {
  LiveTarget target({MALLOC_CHURN, "2"});
  start_tracking(target.pid(), tracker_image(), {});
  TrackingOptions options;
  options.sample_bytes = 4096;
  options.max_frames = 7;
  const TrackingChange change = start_tracking(target.pid(), tracker_image(), options);
  CHECK(change.was_loaded);
  CHECK(change.was_recording);
  CHECK(change.hooks.entry_points == 0);
  REQUIRE(change.directory);
  CHECK(change.directory->sample_bytes == 4096);
  CHECK(change.directory->max_frames == 7);
  CHECK(target.finish().at("errors") == 0);
}

TEST_CASE("memory is trimmed on a thread of which nothing stays") {
  for (const char* threads : {"0", "3"}) {
    CAPTURE(std::string(threads));
    LiveTarget target({MALLOC_CHURN, threads});
    const Footprint before = footprint_of(target.pid());
    for (int i = 0; i < scaled(10, 1000); ++i) {
      const TrimResult result = trim_process(target.pid());
      for (const std::string& note : result.call.notes) FAIL_CHECK(note);
      CHECK(result.rss_before > 0);
    }
    CHECK(eventually([&] {
      const Footprint now = footprint_of(target.pid());
      return now.blocked_signals == before.blocked_signals && now.tracer == 0 &&
             now.descriptors == before.descriptors;
    }));
    CHECK(target.finish().at("errors") == 0);
  }
}

namespace {

[[noreturn]] void inject_until_killed(pid_t pid) {
  while (true) {
    try {
      start_tracking(pid, tracker_image(), {});
      stop_tracking(pid, tracker_image());
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ::_exit(1);
    }
  }
}

// The last word on a target that injectors died on: it can still be tracked, and is itself again
// afterwards.
void check_sound(LiveTarget& target, const std::map<uint64_t, std::vector<std::byte>>& before) {
  start_tracking(target.pid(), tracker_image(), {});
  CHECK(eventually([&] { return recorded_allocations(target.pid()) > 1000; }));
  stop_tracking(target.pid(), tracker_image());
  auto after = code_and_bindings(target.pid());
  std::erase_if(after, [&](const auto& each) { return !before.contains(each.first); });
  CHECK(after == before);
  auto seen = target.finish();
  CHECK(target.exit_status() == 0);
  CHECK(seen.at("errors") == 0);
}

}  // namespace

TEST_CASE("an injector that is killed at any moment harms nobody") {
  for (const char* threads : {"3", "0"}) {
    CAPTURE(std::string(threads));
    LiveTarget target({MALLOC_CHURN, threads});
    const auto before = code_and_bindings(target.pid());
    std::mt19937_64 random(4711);
    std::uniform_int_distribution<int64_t> moment(0, 60'000'000);
    for (int i = 0; i < scaled(15, 300); ++i) {
      const pid_t injector = ::fork();
      if (injector == 0) inject_until_killed(target.pid());
      const int64_t delay = moment(random);
      const timespec time{delay / 1'000'000'000, delay % 1'000'000'000};
      ::nanosleep(&time, nullptr);  // the moment is what is tested
      ::kill(injector, SIGKILL);
      int status = 0;
      ::waitpid(injector, &status, 0);
      REQUIRE(WIFSIGNALED(status));
      REQUIRE(::kill(target.pid(), 0) == 0);
      REQUIRE(footprint_of(target.pid()).tracer == 0);
    }
    check_sound(target, before);
  }
}

TEST_CASE("an injector that is killed after any of its acts harms nobody") {
  for (const char* threads : {"2", "0"}) {
    CAPTURE(std::string(threads));
    LiveTarget target({MALLOC_CHURN, threads});
    const auto before = code_and_bindings(target.pid());
    const int stride = scaled(11, 1);
    int step = 1;
    while (kill_after_step(step, [&] {
      try {
        start_tracking(target.pid(), tracker_image(), {});
        stop_tracking(target.pid(), tracker_image());
      } catch (const Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        ::_exit(1);
      }
    })) {
      CAPTURE(step);
      REQUIRE(::kill(target.pid(), 0) == 0);
      REQUIRE(footprint_of(target.pid()).tracer == 0);
      step += stride;
    }
    CHECK(step > 30);
    check_sound(target, before);
  }
}

}  // namespace heapsnap::live
