#include "platform/linux/proc/cgroup_limits.h"

#include <doctest/doctest.h>

#include "tests/unit/linux/fixture_tree.h"

using namespace heapsnap;

TEST_CASE("cgroup lines of both versions") {
  const auto paths = parse_cgroup(
      "12:cpu,cpuacct:/docker/ab:cd\n9:memory:/docker/x\n1:name=systemd:/init.scope\n"
      "0::/system.slice/app.service\nnonsense\n3:\n5:pids:relative\n");
  REQUIRE(paths.size() == 4);
  CHECK(paths[0] == CgroupPath{{"cpu", "cpuacct"}, "/docker/ab:cd"});
  CHECK(paths[1] == CgroupPath{{"memory"}, "/docker/x"});
  CHECK(paths[2] == CgroupPath{{"name=systemd"}, "/init.scope"});
  CHECK(paths[3] == CgroupPath{{}, "/system.slice/app.service"});
  CHECK(parse_cgroup("").empty());
}

TEST_CASE("v2: the tightest group on the way up counts") {
  const FixtureTree tree;
  tree.write("sys/fs/cgroup/a/memory.max", "1000000\n");
  tree.write("sys/fs/cgroup/a/memory.current", "900000\n");
  tree.write("sys/fs/cgroup/a/b/memory.max", "500000\n");
  tree.write("sys/fs/cgroup/a/b/memory.current", "300000\n");
  tree.write("sys/fs/cgroup/a/b/c/memory.max", "max\n");
  tree.write("sys/fs/cgroup/a/b/c/memory.current", "300000\n");
  tree.write("sys/fs/cgroup/a/b/c/pids.max", "50\n");
  tree.write("sys/fs/cgroup/a/b/c/pids.current", "49\n");
  tree.write("sys/fs/cgroup/a/b/cgroup.freeze", "1\n");
  const CgroupLimits limits = read_cgroup_limits("0::/a/b/c\n", files_of(tree));
  REQUIRE(limits.memory.has_value());
  CHECK(limits.memory->group == "/a");
  CHECK(limits.memory->room() == 100000);
  REQUIRE(limits.processes.has_value());
  CHECK(limits.processes->group == "/a/b/c");
  CHECK(limits.processes->room() == 1);
  CHECK(limits.frozen);
  CHECK(limits.frozen_group == "/a/b");
}

TEST_CASE("file pages that the kernel gives back at once are room") {
  const FixtureTree tree;
  tree.write("sys/fs/cgroup/a/memory.max", "1000\n");
  tree.write("sys/fs/cgroup/a/memory.current", "990\n");
  tree.write("sys/fs/cgroup/a/memory.stat", "anon 90\ninactive_file 600\ninactive_files 3\n");
  const CgroupLimits limits = read_cgroup_limits("0::/a\n", files_of(tree));
  REQUIRE(limits.memory.has_value());
  CHECK(limits.memory->room() == 610);
  CHECK_FALSE(limits.frozen);
}

TEST_CASE("v1: one hierarchy a controller, and a number for no limit") {
  const FixtureTree tree;
  tree.write("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "5000\n");
  tree.write("sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes", "6000\n");
  tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tree.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "7000\n");
  tree.write("sys/fs/cgroup/pids/docker/x/pids.max", "max\n");
  tree.write("sys/fs/cgroup/pids/docker/x/pids.current", "3\n");
  tree.write("sys/fs/cgroup/freezer/docker/x/freezer.state", "FROZEN\n");
  const CgroupLimits limits = read_cgroup_limits(
      "9:memory:/docker/x\n8:pids:/docker/x\n7:freezer:/docker/x\n0::/\n", files_of(tree));
  REQUIRE(limits.memory.has_value());
  CHECK(limits.memory->group == "/memory/docker/x");
  CHECK(limits.memory->room() == 0);
  CHECK_FALSE(limits.processes.has_value());
  CHECK(limits.frozen);
  CHECK(limits.frozen_group == "/freezer/docker/x");
}

TEST_CASE("v2: past memory.high a group is made to wait, so that is a limit too") {
  const FixtureTree tree;
  tree.write("sys/fs/cgroup/a/memory.max", "1000000\n");
  tree.write("sys/fs/cgroup/a/memory.high", "700000\n");
  tree.write("sys/fs/cgroup/a/memory.current", "600000\n");
  const CgroupLimits limits = read_cgroup_limits("0::/a\n", files_of(tree));
  REQUIRE(limits.memory.has_value());
  CHECK(limits.memory->limit == 700000);
  CHECK(memory_limit_files("0::/a\n", files_of(tree)).size() == 2);
}

TEST_CASE("v1: memory with swap has a limit of its own") {
  const FixtureTree tree;
  tree.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  tree.write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "500\n");
  tree.write("sys/fs/cgroup/memory/a/memory.memsw.limit_in_bytes", "2000\n");
  tree.write("sys/fs/cgroup/memory/a/memory.memsw.usage_in_bytes", "900\n");
  const CgroupLimits limits = read_cgroup_limits("9:memory:/a\n", files_of(tree));
  REQUIRE(limits.memory.has_value());
  CHECK(limits.memory->room() == 1100);
}

TEST_CASE("v2: whether the kernel ends the whole group when memory runs out") {
  const FixtureTree tree;
  tree.write("sys/fs/cgroup/a/memory.oom.group", "1\n");
  tree.write("sys/fs/cgroup/a/b/memory.oom.group", "0\n");
  CHECK(read_cgroup_limits("0::/a/b\n", files_of(tree)).dies_together);
  CHECK_FALSE(read_cgroup_limits("0::/c\n", files_of(tree)).dies_together);
}

TEST_CASE("inside a container the mount is the group") {
  const FixtureTree tree;
  tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "100\n");
  tree.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "40\n");
  const CgroupLimits limits = read_cgroup_limits("9:memory:/docker/x\n", files_of(tree));
  REQUIRE(limits.memory.has_value());
  CHECK(limits.memory->group == "/memory");
  CHECK(limits.memory->room() == 60);
}

TEST_CASE("a path of another cgroup namespace is not followed upwards") {
  const FixtureTree tree;
  tree.write("sys/other/memory.max", "1\n");
  tree.write("sys/other/memory.current", "1\n");
  tree.write("sys/fs/cgroup/cgroup.controllers", "\n");
  CHECK_FALSE(read_cgroup_limits("0::/../../other\n", files_of(tree)).memory.has_value());
}

TEST_CASE("damaged files are no limits") {
  const FixtureTree tree;
  tree.write("sys/fs/cgroup/a/memory.max", "lots\n");
  tree.write("sys/fs/cgroup/a/memory.current", "-1\n");
  tree.write("sys/fs/cgroup/a/pids.max", "");
  const CgroupLimits limits = read_cgroup_limits("0::/a\n", files_of(tree));
  CHECK_FALSE(limits.memory.has_value());
  CHECK_FALSE(limits.processes.has_value());
}
