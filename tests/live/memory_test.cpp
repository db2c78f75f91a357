// Targets near the memory limit of their control group: a copy of them costs a page for each that
// they write to, and nobody may be ended for that but the copy.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "platform/linux/freeze/frozen_process.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/proc_fs.h"
#include "tests/live/checks.h"
#include "tests/live/forked_child.h"
#include "tests/live/live_target.h"
#include "tests/live/memory_group.h"
#include "tests/live/stepped_process.h"

namespace heapsnap::live {

namespace {

constexpr uint64_t kMiB = 1 << 20;

// Each version of control groups that this machine has.
template <typename Test>
void in_each_version(uint64_t limit, Test test) {
  for (const auto version : {MemoryGroup::Version::kV1, MemoryGroup::Version::kV2}) {
    std::string why_not;
    const auto group = MemoryGroup::make(version, limit, why_not);
    if (!group) {
      MESSAGE("skipped: ", why_not);
      continue;
    }
    test(*group);
  }
}

std::string score_of(int pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/oom_score_adj";
  return std::string(trimmed(read_kernel_text(path).value_or("")));
}

bool is_traced(pid_t pid) {
  const auto status = ProcFs().try_read(pid, "status");
  return status && status_number(*status, "TracerPid").value_or(0) != 0;
}

}  // namespace

TEST_CASE("the copy is the first to go before any thread of the target runs on") {
  LiveTarget target({HEAP_WRITER, "16", "told"});
  int step = 1;
  int looks = 0;
  const auto look = [&] {
    if (is_traced(target.pid())) return;
    for (const int copy : children_of(target.pid(), false)) {
      ++looks;
      CAPTURE(step);
      CHECK(score_of(copy) == "1000");
    }
  };
  while (act_after_step(
      step,
      [&] {
        FrozenProcess(target.pid(), choose(FreezeChoice::kFork)).thaw();
        return 0;
      },
      look)) {
    ++step;
  }
  CHECK(looks > 0);
  target.finish();
  CHECK(target.exit_status() == 0);
}

TEST_CASE("a target that writes as soon as it is let go is not ended for its copy") {
  in_each_version(200 * kMiB, [](const MemoryGroup& group) {
    LiveTarget target(group.command({HEAP_WRITER, "128", "told"}));
    int step = 1;
    bool has_written = false;
    const auto write_all = [&] {
      if (has_written || is_traced(target.pid()) || children_of(target.pid(), false).empty()) {
        return;
      }
      has_written = true;  // while heapsnap stands, its watch too
      target.write_line("write");
      REQUIRE(target.read_line() == "written");
    };
    while (act_after_step(
               step,
               [&] {
                 FrozenProcess(target.pid(), choose(FreezeChoice::kFork)).thaw();
                 return 0;
               },
               write_all) &&
           !has_written) {
      ++step;
    }
    CHECK(has_written);
    target.finish();
    CHECK(target.exit_status() == 0);
  });
}

TEST_CASE("a copy is given up before the limit of the group is reached") {
  in_each_version(200 * kMiB, [](const MemoryGroup& group) {
    LiveTarget target(group.command({HEAP_WRITER, "128", "told"}));
    for (int i = 0; i < scaled(3, 200); ++i) {
      const auto frozen =
          std::make_unique<FrozenProcess>(target.pid(), choose(FreezeChoice::kFork));
      INFO(frozen->record().why);
      REQUIRE(frozen->record().method == FreezeMethod::kFork);
      CHECK_FALSE(frozen->loss().has_value());
      target.write_line("write");  // all of it, while the copy is held
      REQUIRE(target.read_line() == "written");
      REQUIRE(frozen->loss().has_value());
      CHECK(frozen->loss()->find("are left") != std::string::npos);
    }
    CHECK(difference("child", {}, footprint_of(target.pid()).children) == "");
    target.finish();
    CHECK(target.exit_status() == 0);
  });
}

TEST_CASE("nothing more is read of a copy that is void, in whatever way") {
  LiveTarget target({HEAP_WRITER, "16", "told"});
  FrozenProcess frozen(target.pid(), choose(FreezeChoice::kFork));
  REQUIRE(frozen.record().method == FreezeMethod::kFork);
  const auto mappings = frozen.address_space().mappings();
  const auto heap = std::find_if(mappings.begin(), mappings.end(),
                                 [](const Mapping& mapping) { return mapping.path == "[heap]"; });
  REQUIRE(heap != mappings.end());
  std::vector<std::byte> large(1 << 20);
  std::vector<std::byte> small(64);
  CHECK(frozen.memory().read(heap->range.begin, large) == large.size());
  CHECK(frozen.memory().read(heap->range.begin, small) == small.size());
  frozen.set_memory_budget(4096);
  target.write_line("write");
  REQUIRE(target.read_line() == "written");
  while (!frozen.loss()) std::this_thread::yield();
  CHECK(frozen.loss()->find("more than the budget") != std::string::npos);
  CHECK_FALSE(children_of(target.pid(), false).empty());  // it lives
  CHECK_THROWS_AS(frozen.memory().read(heap->range.begin, large), Error);
  CHECK_THROWS_AS(frozen.memory().read(heap->range.begin, small), Error);
  frozen.thaw();
  CHECK(children_of(target.pid(), false).empty());
  target.finish();
  CHECK(target.exit_status() == 0);
}

TEST_CASE("a target that writes while its copy ends, near the limit, is not ended for it") {
  in_each_version(266 * kMiB, [](const MemoryGroup& group) {
    LiveTarget target(group.command({HEAP_WRITER, "256", "told"}));
    const auto copy_once = [&target] {
      FrozenProcess(target.pid(), choose(FreezeChoice::kFork)).thaw();
      return 0;
    };
    // While heapsnap stands, and the copy exits: the OOM killer does not see its memory any more.
    const auto write_all = [&] {
      if (is_traced(target.pid())) return;
      const std::vector<int> copies = children_of(target.pid(), false);
      if (copies.empty()) return;
      const auto copy = ProcFs().try_read(copies.front(), "statm");
      if (!copy || !copy->starts_with("0 ")) return;
      target.write_line("write");
      REQUIRE(target.read_line() == "written");
    };
    constexpr int kLastSteps = 36;  // in which the copy is discarded
    const int steps = act_after_each_step(copy_once, [] {});
    for (int round = 0; round < scaled(2, 200); ++round) {
      for (int step = std::max(1, steps - kLastSteps); step <= steps; ++step) {
        act_after_step(step, copy_once, write_all);
      }
    }
    target.finish();
    CHECK(target.exit_status() == 0);
  });
}

TEST_CASE("where nobody gives the copy up, it is ended and not the target") {
  in_each_version(200 * kMiB, [](const MemoryGroup& group) {
    LiveTarget target(group.command({HEAP_WRITER, "128", "told"}));
    for (int i = 0; i < scaled(3, 200); ++i) {
      const pid_t freezer = run_in_child([&target] {
        const auto frozen =
            std::make_unique<FrozenProcess>(target.pid(), choose(FreezeChoice::kFork));
        if (frozen->record().method != FreezeMethod::kFork) return 1;
        ::raise(SIGSTOP);  // its watch, too
        ::_exit(0);        // without the freeze's own end
      });
      int status = 0;
      ::waitpid(freezer, &status, WUNTRACED);
      REQUIRE(WIFSTOPPED(status));
      target.write_line("write");
      REQUIRE(target.read_line() == "written");
      ::kill(freezer, SIGKILL);
      ::waitpid(freezer, &status, 0);
    }
    target.finish();
    CHECK(target.exit_status() == 0);
  });
}

TEST_CASE("a target that writes all the time near its limit is not copied, and lives") {
  in_each_version(150 * kMiB, [](const MemoryGroup& group) {
    LiveTarget target(group.command({HEAP_WRITER, "132", "always"}));
    for (int i = 0; i < scaled(20, 200); ++i) {
      const auto frozen =
          std::make_unique<FrozenProcess>(target.pid(), choose(FreezeChoice::kFork));
      frozen->thaw();
      REQUIRE(::kill(target.pid(), 0) == 0);
    }
    target.finish();
    CHECK(target.exit_status() == 0);
  });
}

TEST_CASE("where a group is ended as a whole, a copy must find room for all of it") {
  std::string why_not;
  const auto group = MemoryGroup::make(MemoryGroup::Version::kV2, 200 * kMiB, why_not);
  if (!group || !group->die_together()) {
    MESSAGE("skipped: ", why_not);
    return;
  }
  LiveTarget target(group->command({HEAP_WRITER, "128", "told"}));
  for (int i = 0; i < scaled(3, 200); ++i) {
    const auto frozen = std::make_unique<FrozenProcess>(target.pid(), choose(FreezeChoice::kFork));
    CHECK(frozen->record().method == FreezeMethod::kStop);
  }
  target.finish();
  CHECK(target.exit_status() == 0);
}

}  // namespace heapsnap::live
