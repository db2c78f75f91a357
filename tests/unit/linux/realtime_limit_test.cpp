#include "platform/linux/self/realtime_limit.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "platform/linux/proc/cgroup_limits.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/self/brief_priority.h"
#include "platform/linux/self/realtime_priority.h"
#include "platform/linux/self/task_priority.h"
#include "tests/unit/linux/fixture_tree.h"

using namespace heapsnap;

namespace {

// A control group below that of this process, for its threads.
class RealtimeGroup {
 public:
  RealtimeGroup() {
    const std::string cgroups = kernel_text_or_empty("/proc/self/cgroup");
    for (const CgroupFolder& above : cgroup_folders(cgroups, "cpu", {})) {
      folder_ = above.path + "/heapsnap-realtime-" + std::to_string(::getpid());
      std::error_code error;
      if (!std::filesystem::create_directory(folder_, error)) continue;
      if (std::filesystem::exists(folder_ + "/cpu.rt_runtime_us")) return;
      std::filesystem::remove(folder_, error);
    }
    folder_.clear();
  }
  RealtimeGroup(const RealtimeGroup&) = delete;
  RealtimeGroup& operator=(const RealtimeGroup&) = delete;
  ~RealtimeGroup() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove(folder_, ignored);
  }
  bool exists() const { return !folder_.empty(); }
  // Of a second.
  bool set_budget(int microseconds) const {
    return write("cpu.rt_runtime_us", std::to_string(microseconds));
  }
  bool enter() const { return write("tasks", std::to_string(::gettid())); }

 private:
  bool write(const std::string& name, const std::string& text) const {
    std::ofstream file(folder_ + "/" + name);
    file << text << std::flush;
    return file.good();
  }

  std::string folder_;
};

}  // namespace

TEST_CASE(
    "the least real-time budget on the way up counts: half of the time is enough, or 100 ms") {
  const FixtureTree tree;
  const std::string cpu = "sys/fs/cgroup/cpu/";
  tree.write(cpu + "cpu.rt_runtime_us", "950000\n");
  tree.write(cpu + "cpu.rt_period_us", "1000000\n");
  for (const char* const group : {"a/", "a/b/", "c/", "d/"}) {
    tree.write(cpu + group + "cpu.rt_period_us", "100000\n");
  }
  tree.write(cpu + "a/cpu.rt_runtime_us", "49999\n");
  tree.write(cpu + "a/b/cpu.rt_runtime_us", "90000\n");
  tree.write(cpu + "c/cpu.rt_runtime_us", "50000\n");
  tree.write(cpu + "d/cpu.rt_runtime_us", "-1\n");
  tree.write(cpu + "e/cpu.rt_period_us", "1000000\n");
  tree.write(cpu + "e/cpu.rt_runtime_us", "99999\n");
  tree.write(cpu + "f/cpu.rt_period_us", "1000000\n");
  tree.write(cpu + "f/cpu.rt_runtime_us", "100000\n");
  CHECK(has_small_realtime_budget("4:cpu,cpuacct:/a/b\n", files_of(tree)));
  CHECK_FALSE(has_small_realtime_budget("4:cpu:/c\n", files_of(tree)));
  CHECK_FALSE(has_small_realtime_budget("4:cpu:/d\n", files_of(tree)));
  CHECK(has_small_realtime_budget("4:cpu:/e\n", files_of(tree)));
  CHECK_FALSE(has_small_realtime_budget("4:cpu:/f\n", files_of(tree)));
  CHECK_FALSE(has_small_realtime_budget("4:cpu:/\n", files_of(tree)));
  CHECK_FALSE(has_small_realtime_budget("0::/a\n", files_of(tree)));
}

TEST_CASE("a thread whose group has a small real-time budget gets no real-time priority") {
  if (!gets_realtime_priority()) {
    MESSAGE("skipped: this process gets no real-time priority");
    return;
  }
  const RealtimeGroup group;
  if (!group.exists() || !group.set_budget(100'000)) {
    MESSAGE("skipped: no control group with a real-time budget can be made here");
    return;
  }
  std::thread([&group] {
    REQUIRE(group.enter());
    CHECK(gets_realtime_priority());
    REQUIRE(group.set_budget(10'000));
    CHECK_FALSE(gets_realtime_priority());
    {
      BriefPriority priority;
      priority.begin();
      CHECK(::sched_getscheduler(0) == SCHED_OTHER);
    }
    CHECK_FALSE(make_realtime(0));
    CHECK(::sched_getscheduler(0) == SCHED_OTHER);
  }).join();
}
