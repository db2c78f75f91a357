#include "platform/linux/proc/memory_room.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "tests/unit/byte_units.h"
#include "tests/unit/linux/fixture_tree.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

ProcessStatus process_of(uint64_t rss, uint64_t writable) {
  ProcessStatus process;
  process.rss = rss;
  process.writable = writable;
  return process;
}

MachineMemory roomy_machine() {
  MachineMemory machine;
  machine.available = 64 * kGiB;
  machine.commit_limit = 8 * kGiB;
  machine.committed = 7 * kGiB;
  return machine;
}

}  // namespace

TEST_CASE("meminfo and the overcommit policy") {
  const MachineMemory memory = parse_machine_memory(
      "MemTotal:        8000 kB\nMemAvailable:    6000 kB\nCommitLimit:     4000 kB\n"
      "Committed_AS:    1000 kB\n",
      "2\n");
  CHECK(memory.available == 6000 * 1024);
  CHECK(memory.commit_limit == 4000 * 1024);
  CHECK(memory.committed == 1000 * 1024);
  CHECK(memory.strict_overcommit);
  CHECK_FALSE(parse_machine_memory("", "0\n").strict_overcommit);
  CHECK_FALSE(parse_machine_memory("", "").available.has_value());
}

TEST_CASE("a copy fits where there is room") {
  CHECK_FALSE(find_copy_refusal(process_of(10 * kGiB, 20 * kGiB), roomy_machine(), {}, {}));
  CHECK_FALSE(find_copy_refusal(process_of(10 * kGiB, 20 * kGiB), {}, {}, {}));
}

TEST_CASE("a copy needs what can be written until it is gone") {
  ProcessStatus process = process_of(kGiB, 0);
  process.rss_anonymous = 128 * kMiB;
  process.page_tables = kMiB;
  // Nobody has written: page tables, some change and what stays free, and what can be written
  // unexpectedly. One processor: 12 ms of copying pages.
  CHECK(room_for_copy(process, {0, true}) == 12 * kMiB);
  CHECK(room_for_copy(process, {1, true}) > 40 * kMiB);
  CHECK(room_for_copy(process, {1, true}) < 60 * kMiB);
  CHECK(room_for_copy(process, {4, true}) == 132 * kMiB);  // never more than there is to write
  // It cannot be given up: nothing is left to chance.
  CHECK(room_for_copy(process, {0, false}) == 130 * kMiB);
}

TEST_CASE("each limit refuses for itself, with its numbers") {
  MachineMemory machine = roomy_machine();
  machine.available = kGiB;  // 10 GB are given back in 0.7 s, in which 2.7 GB can be written
  auto refusal = find_copy_refusal(process_of(10 * kGiB, 0), machine, {}, {});
  REQUIRE(refusal.has_value());
  CHECK(refusal->id == "memory");
  CHECK(refusal->why.find("MemAvailable is 1.0 GiB") != std::string::npos);

  // The commit limit counts only under strict overcommit.
  machine = roomy_machine();
  CHECK_FALSE(find_copy_refusal(process_of(kMiB, 2 * kGiB), machine, {}, {}));
  machine.strict_overcommit = true;
  refusal = find_copy_refusal(process_of(kMiB, 2 * kGiB), machine, {}, {});
  REQUIRE(refusal.has_value());
  CHECK(refusal->id == "commit-limit");
  CHECK_FALSE(find_copy_refusal(process_of(kMiB, kGiB), machine, {}, {}));
  machine.committed = 9 * kGiB;  // more than the limit: nothing left, not a huge number
  CHECK(find_copy_refusal(process_of(kMiB, 1), machine, {}, {}).has_value());

  CgroupLimits limits;
  limits.memory = CgroupLimit{"/app", 2 * kGiB, 2 * kGiB - kMiB};
  refusal = find_copy_refusal(process_of(kGiB, 0), roomy_machine(), limits, {});
  REQUIRE(refusal.has_value());
  CHECK(refusal->id == "memory-cgroup");
  CHECK(refusal->why.find("/app has 1.0 MiB left of 2.0 GiB") != std::string::npos);

  limits = {};
  limits.processes = CgroupLimit{"/app", 100, 99};
  refusal = find_copy_refusal(process_of(kMiB, 0), roomy_machine(), limits, {});
  REQUIRE(refusal.has_value());
  CHECK(refusal->id == "pids-cgroup");
  limits.processes->used = 80;
  CHECK_FALSE(find_copy_refusal(process_of(kMiB, 0), roomy_machine(), limits, {}));
  refusal = find_copy_refusal(process_of(kMiB, 0), roomy_machine(), limits, {}, UserTasks{7, 3, 2});
  REQUIRE(refusal.has_value());
  CHECK(refusal->id == "user-tasks");
}

TEST_CASE("the limits of one process are read from its files") {
  const FixtureTree tree;
  const int pid = ::getpid();  // one that may be killed by us
  const std::string folder = "proc/" + std::to_string(pid);
  tree.write(folder + "/status",
             "Name:\tx\nState:\tS\nVmSize:\t1 kB\nVmRSS:\t1048576 kB\nVmData:\t2097152 kB\n");
  tree.write(folder + "/cgroup", "0::/app\n");
  tree.write("proc/meminfo", "MemAvailable:    104857600 kB\n");
  tree.write("proc/sys/vm/overcommit_memory", "0\n");
  tree.write("sys/fs/cgroup/app/memory.max", "1200000000\n");
  tree.write("sys/fs/cgroup/app/memory.current", "1100000000\n");
  const KernelFiles files{tree.path("proc"), tree.path("sys")};
  const auto refusal = find_copy_refusal(pid, 1.0, files);
  REQUIRE(refusal.has_value());
  CHECK(refusal->id == "memory-cgroup");
  CHECK_FALSE(find_copy_refusal(0, 1.0, files).has_value());

  // Nobody writes, and it may be given up; but not where the whole group would end with it.
  CHECK_FALSE(find_copy_refusal(pid, 0.0, files).has_value());
  tree.write("sys/fs/cgroup/app/memory.oom.group", "1\n");
  CHECK(find_copy_refusal(pid, 0.0, files).has_value());
}
