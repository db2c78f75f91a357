#include "platform/linux/self/cpu_quota.h"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/unit/linux/fixture_tree.h"

using namespace heapsnap;

TEST_CASE("v1: the least CPU quota on the way up counts, and its own statistics") {
  const FixtureTree tree;
  tree.write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "20000\n");
  tree.write("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  tree.write("sys/fs/cgroup/cpu/a/cpu.stat", "nr_periods 7\nthrottled_time 3000000\n");
  tree.write("sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "150000\n");
  tree.write("sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
  tree.write("sys/fs/cgroup/cpu/a/b/cpu.stat", "nr_periods 9\nthrottled_time 1\n");
  const auto quota = CpuQuota::read("4:cpu,cpuacct:/a/b\n", files_of(tree));
  REQUIRE(quota.has_value());
  CHECK(quota->group() == "/cpu/a");
  CHECK(quota->processors() == doctest::Approx(0.2));
  CHECK(quota->throttled() == std::chrono::milliseconds(3));
}

TEST_CASE("v2: a quota of the group, in microseconds") {
  const FixtureTree tree;
  tree.write("sys/fs/cgroup/a/cpu.max", "2000 50000\n");
  tree.write("sys/fs/cgroup/a/cpu.stat", "usage_usec 1\nnr_throttled 2\nthrottled_usec 3000\n");
  const auto quota = CpuQuota::read("0::/a\n", files_of(tree));
  REQUIRE(quota.has_value());
  CHECK(quota->group() == "/a");
  CHECK(quota->processors() == doctest::Approx(0.04));
  CHECK(quota->throttled() == std::chrono::milliseconds(3));
}

TEST_CASE("no CPU quota") {
  const FixtureTree tree;
  tree.write("sys/fs/cgroup/a/cpu.max", "max 100000\n");
  tree.write("sys/fs/cgroup/cpu/b/cpu.cfs_quota_us", "-1\n");
  tree.write("sys/fs/cgroup/cpu/b/cpu.cfs_period_us", "100000\n");
  tree.write("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "1000\n");
  tree.write("sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "0\n");
  CHECK_FALSE(CpuQuota::read("0::/a\n", files_of(tree)));
  CHECK_FALSE(CpuQuota::read("4:cpu:/b\n", files_of(tree)));
  CHECK_FALSE(CpuQuota::read("4:cpu:/c\n", files_of(tree)));
  CHECK_FALSE(CpuQuota::read("", files_of(tree)));
}

TEST_CASE("the wait for a period ends also if none begins") {
  const FixtureTree tree;
  tree.write("sys/fs/cgroup/a/cpu.max", "2000 50000\n");
  const auto quota = CpuQuota::read("0::/a\n", files_of(tree));
  REQUIRE(quota.has_value());
  const auto begin = std::chrono::steady_clock::now();
  quota->await_period();
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(50));
}

TEST_CASE("the wait ends when a period has begun") {
  const FixtureTree tree;
  tree.write("sys/fs/cgroup/a/cpu.max", "2000 60000000\n");
  tree.write("sys/fs/cgroup/a/cpu.stat", "nr_periods 1\n");
  const auto quota = CpuQuota::read("0::/a\n", files_of(tree));
  REQUIRE(quota.has_value());
  std::atomic<bool> has_ended = false;
  std::thread waiter([&] {
    quota->await_period();
    has_ended = true;
  });
  // Whatever it read first, one of these is another one.
  for (int period = 2; !has_ended; ++period) {
    tree.write("sys/fs/cgroup/a/cpu.stat", "nr_periods " + std::to_string(period) + "\n");
    std::this_thread::yield();
  }
  waiter.join();
}
