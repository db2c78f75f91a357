#include "tools/capture/memory_budget.h"

#include <doctest/doctest.h>

#include "tests/unit/byte_units.h"
#include "tests/unit/linux/fixture_tree.h"

using namespace heapsnap;
using test::kMiB;

namespace {

constexpr int kPid = 4242;

void set_free(const FixtureTree& files, uint64_t bytes) {
  files.write("proc/meminfo",
              "MemTotal: 99999999 kB\nMemAvailable: " + std::to_string(bytes / 1024) + " kB\n");
}

KernelFiles kernel_files(const FixtureTree& files) {
  return {.proc = files.path("proc"), .sys = files.path("sys")};
}

}  // namespace

TEST_CASE("the budget is a tenth of what is free on the machine") {
  FixtureTree files;
  set_free(files, 1000 * kMiB);
  MemoryBudget budget(kPid, std::nullopt, kernel_files(files));
  CHECK(budget.bytes() == 100 * kMiB);
  CHECK(budget.why_spent() == std::nullopt);
  set_free(files, 900 * kMiB);
  CHECK(budget.why_spent() == std::nullopt);
  set_free(files, 899 * kMiB);
  CHECK(budget.why_spent() ==
        "free memory fell by more than the budget of 100.0 MiB while the process was read (memory "
        "of this machine); with --memory-budget SIZE it may fall further");
  set_free(files, 2000 * kMiB);
  CHECK(budget.why_spent() == std::nullopt);
}

TEST_CASE("or of what the process's control group leaves, where that is less") {
  FixtureTree files;
  set_free(files, 1000 * kMiB);
  const std::string group = "sys/fs/cgroup/app/";
  files.write("proc/4242/cgroup", "0::/app\n");
  files.write("sys/fs/cgroup/cgroup.controllers", "memory\n");
  files.write(group + "memory.max", std::to_string(600 * kMiB) + "\n");
  files.write(group + "memory.stat", "inactive_file 0\n");
  const auto use = [&](uint64_t bytes) {
    files.write(group + "memory.current", std::to_string(bytes) + "\n");
  };
  use(200 * kMiB);
  MemoryBudget budget(kPid, std::nullopt, kernel_files(files));
  CHECK(budget.bytes() == 40 * kMiB);
  use(240 * kMiB);
  CHECK(budget.why_spent() == std::nullopt);
  use(241 * kMiB);
  CHECK(budget.why_spent() ==
        "free memory fell by more than the budget of 40.0 MiB while the process was read (memory "
        "limit of /app); with --memory-budget SIZE it may fall further");
}

TEST_CASE("what is asked for is the budget, and none is too small") {
  FixtureTree files;
  set_free(files, 1000 * kMiB);
  CHECK(MemoryBudget(kPid, 7 * kMiB, kernel_files(files)).bytes() == 7 * kMiB);
  MemoryBudget nothing(kPid, 0, kernel_files(files));
  CHECK(nothing.why_spent() == std::nullopt);
  set_free(files, 999 * kMiB);
  CHECK(nothing.why_spent().has_value());
}

TEST_CASE("where nothing limits memory, the budget is never spent") {
  FixtureTree files;
  MemoryBudget budget(kPid, std::nullopt, kernel_files(files));
  CHECK(budget.why_spent() == std::nullopt);
}
