#include "platform/linux/freeze/copy_watch.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "base/count_text.h"
#include "platform/linux/proc/memory_room.h"
#include "platform/linux/self/realtime_priority.h"
#include "platform/linux/self/task_priority.h"
#include "tests/eventually.h"
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

void set_faults(const FixtureTree& tree, int pid, uint64_t minor, uint64_t major) {
  tree.write(
      "proc/" + std::to_string(pid) + "/stat",
      "1 (a) R 1 1 1 0 -1 0 " + std::to_string(minor) + " 0 " + std::to_string(major) + " 0\n");
}

void end_child(int child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace

TEST_CASE("a copy near a limit is void, and left alive for the OOM killer to see") {
  const FixtureTree tree;
  tree.write("proc/meminfo", "MemAvailable:    1024 kB\n");
  const int child = start_pinned_child();
  CopyWatch watch(child, 1 << 20, std::chrono::seconds(10), {tree.path("proc"), tree.path("sys")});
  CHECK(watch.has_room_for_all());
  watch.begin(child, true);
  REQUIRE(eventually([&] { return watch.is_void().load(); }));
  CHECK(watch.reason().value().find("are left of the memory of this machine") != std::string::npos);
  tree.write("proc/meminfo", "MemAvailable:    1023 kB\n");
  CHECK_FALSE(watch.has_room_for_all());
  watch.end();
  CHECK(::kill(child, 0) == 0);
  CHECK(::waitpid(child, nullptr, WNOHANG) == 0);
  end_child(child);
}

TEST_CASE("a copy that is killed waits for no processor on its way out") {
  const FixtureTree tree;
  tree.write("proc/meminfo", "MemAvailable:    1024 kB\n");
  const int child = start_pinned_child();
  CopyWatch watch(child, 1 << 20, std::chrono::seconds(10), {tree.path("proc"), tree.path("sys")});
  watch.begin(child, false);  // its whole group would be killed
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK(watch.reason().has_value());
  CHECK(processors_of(child) == processors_of(0));
  if (gets_realtime_priority()) CHECK(::sched_getscheduler(child) == SCHED_FIFO);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("a call that takes long has real-time priority until its end") {
  if (!gets_realtime_priority()) {
    MESSAGE("skipped: this process gets no real-time priority");
    return;
  }
  const FixtureTree tree;
  const int child = start_pinned_child();
  CopyWatch watch(child, 1 << 20, std::chrono::hours(1), {tree.path("proc"), tree.path("sys")});
  watch.begin(child, true);
  for (int i = 0; i < 2; ++i) {
    watch.begin_call();
    CHECK(eventually([&] { return ::sched_getscheduler(child) == SCHED_FIFO; }));
    watch.end_call();
    CHECK(::sched_getscheduler(child) == SCHED_OTHER);
  }
  watch.end();
  end_child(child);
}

TEST_CASE("a copy that has real-time priority before its call keeps it") {
  if (!gets_realtime_priority()) {
    MESSAGE("skipped: this process gets no real-time priority");
    return;
  }
  const FixtureTree tree;
  const KernelFiles files = files_of(tree);
  const int child = start_pinned_child();
  const int other = start_pinned_child();
  REQUIRE(set_policy(child, SCHED_RR, 1));
  {
    CopyWatch watch(child, 1 << 20, std::chrono::hours(1), files);
    CopyWatch later(other, 1 << 20, std::chrono::hours(1), files);
    watch.begin(child, true);
    watch.begin_call();
    later.begin(other, true);
    // When the second of these calls is late, the first watch has seen that its call is.
    for (int i = 0; i < 2; ++i) {
      later.begin_call();
      CHECK(eventually([&] { return ::sched_getscheduler(other) == SCHED_FIFO; }));
      later.end_call();
    }
    watch.end_call();
    CHECK(::sched_getscheduler(child) == SCHED_RR);
    watch.end();
    later.end();
  }
  end_child(child);
  end_child(other);
}

TEST_CASE("page faults are counted whatever the name of the process") {
  CHECK(faults_in_stat("7 (a) R 1) 2 (b) R 1 1 1 0 -1 0 5 6 7 8\n") == 12);
  CHECK(faults_in_stat("7 (a) R 1 1 1 0 -1 0 5 6\n") == std::nullopt);
  CHECK(faults_in_stat("") == std::nullopt);
}

TEST_CASE("a copy is given up when more than the budget was copied, whoever reads it") {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const FixtureTree tree;
  const int child = start_pinned_child();
  set_faults(tree, child, 1000, 10);
  CopyWatch watch(child, 1 << 20, std::chrono::seconds(10), {tree.path("proc"), tree.path("sys")});
  set_faults(tree, child, 2000, 10);  // before there is a copy
  watch.begin(child, true);
  set_faults(tree, child, 2062, 12);
  watch.set_budget(64 * page);
  CHECK_FALSE(watch.reason().has_value());
  set_faults(tree, child, 2062, 13);
  REQUIRE(eventually([&] { return watch.is_void().load(); }));
  CHECK(watch.reason() == "the process writes to its memory: up to " + size_text(65 * page) +
                              " were copied while its copy was read, more than the budget of " +
                              size_text(64 * page));
  watch.end();
  end_child(child);
}
