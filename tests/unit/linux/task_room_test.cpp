#include "platform/linux/proc/task_room.h"

#include <doctest/doctest.h>

#include <string>

#include "platform/linux/proc/resource_limits.h"
#include "tests/unit/linux/fixture_tree.h"

using namespace heapsnap;

namespace {

constexpr const char* kHead =
    "Limit                     Soft Limit           Hard Limit           Units\n";

std::string processes_line(const std::string& soft) {
  return "Max processes             " + soft +
         "                   100                  processes\n";
}

void write_process(const FixtureTree& tree, int pid, int user, int threads) {
  const std::string ids = std::to_string(user);
  tree.write("proc/" + std::to_string(pid) + "/status",
             "Name:\tx\nState:\tS\nPid:\t" + std::to_string(pid) + "\nUid:\t" + ids +
                 "\t0\t0\t0\n" + "Threads:\t" + std::to_string(threads) + "\n");
}

}  // namespace

TEST_CASE("one limit of /proc/PID/limits") {
  const std::string text =
      std::string(kHead) +
      "Max stack size            8388608              unlimited            bytes\n" +
      "Max address space         unlimited            unlimited            bytes\n";
  CHECK(soft_limit(text, "Max stack size") == 8388608);
  CHECK_FALSE(soft_limit(text, "Max address space"));
  CHECK_FALSE(soft_limit(text, "Max processes"));
  CHECK_FALSE(soft_limit("", "Max processes"));
}

TEST_CASE("all processes and threads of a user count for its limit") {
  const FixtureTree tree;
  const KernelFiles files{tree.path("proc"), tree.path("sys")};
  write_process(tree, 10, 1000, 3);
  write_process(tree, 11, 1000, 4);
  write_process(tree, 12, 33, 90);
  tree.write("proc/10/limits", kHead + processes_line("20"));
  tree.write("proc/10/cgroup", "0::/app\n");
  tree.write("proc/loadavg", "0.00 0.00 0.00 1/97 12\n");

  // Its effective user is root, who is not asked.
  CHECK_FALSE(find_task_refusal(10, 5, files));
  const auto refusal = find_task_refusal(10, 6, files);
  REQUIRE(refusal.has_value());
  CHECK(refusal->id == "user-tasks");
  CHECK(refusal->why == "ulimit -u of it is 20, and user 1000 has 7 processes and threads");

  tree.write("proc/10/limits", kHead + processes_line("unlimited"));
  CHECK_FALSE(find_task_refusal(10, 6, files));
}

TEST_CASE("tasks that /proc does not show may be the user's") {
  const FixtureTree tree;
  const KernelFiles files{tree.path("proc"), tree.path("sys")};
  write_process(tree, 10, 1000, 3);
  write_process(tree, 12, 33, 4);
  tree.write("proc/10/limits", kHead + processes_line("25"));
  tree.write("proc/10/cgroup", "0::/app\n");
  tree.write("proc/loadavg", "0.00 0.00 0.00 1/7 12\n");
  CHECK_FALSE(find_task_refusal(10, 14, files));
  tree.write("proc/loadavg", "0.00 0.00 0.00 1/17 12\n");  // ten in other namespaces
  CHECK_FALSE(find_task_refusal(10, 4, files));
  const auto refusal = find_task_refusal(10, 5, files);
  REQUIRE(refusal.has_value());
  CHECK(refusal->why ==
        "ulimit -u of it is 25, and user 1000 has 3 processes and threads, and perhaps 10 that "
        "/proc does not show");
}

TEST_CASE("root of the machine has no limit of tasks, the root of a user namespace has") {
  const FixtureTree tree;
  const KernelFiles files{tree.path("proc"), tree.path("sys")};
  write_process(tree, 10, 0, 20);
  tree.write("proc/10/limits", kHead + processes_line("20"));
  tree.write("proc/self/uid_map", "         0          0 4294967295\n");
  CHECK_FALSE(find_task_refusal(10, 1, files));
  tree.write("proc/self/uid_map", "         0     100000      65536\n");
  CHECK(find_task_refusal(10, 1, files).has_value());
}

TEST_CASE("a limit of the control group refuses tasks as well") {
  CgroupLimits limits;
  limits.processes = CgroupLimit{"/app", 100, 90};
  CHECK_FALSE(find_task_refusal(limits, std::nullopt, 2));
  const auto refusal = find_task_refusal(limits, std::nullopt, 3);
  REQUIRE(refusal.has_value());
  CHECK(refusal->id == "pids-cgroup");
}
