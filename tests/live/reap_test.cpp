// Is the copy gone from the target afterwards, and the target itself, whatever it does meanwhile?
#include <doctest/doctest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "platform/linux/freeze/copy_reaper.h"
#include "platform/linux/freeze/frozen_process.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/trace/reaping_seize.h"
#include "tests/live/checks.h"
#include "tests/live/live_target.h"
#include "tests/live/stepped_process.h"

namespace heapsnap::live {

namespace {

// Freezes, has `meanwhile` done while the copy lives, and lets it go.
FreezeRecord freeze_and(pid_t pid, const std::function<void()>& meanwhile) {
  const auto frozen = std::make_unique<FrozenProcess>(pid, choose(FreezeChoice::kFork));
  meanwhile();
  frozen->thaw();
  return frozen->record();
}

// A copy can be made, and nothing of it is left.
void copy_once(pid_t pid) {
  const FreezeRecord record = freeze_and(pid, [] {});
  INFO(record.why);
  REQUIRE(record.method == FreezeMethod::kFork);
  CHECK(notes_of(record) == "");
  REQUIRE(footprint_of(pid).children.empty());
}

}  // namespace

TEST_CASE("a target that executes another program while the copy lives is unharmed") {
  for (const std::string how : {"leader", "thread"}) {
    CAPTURE(how);
    LiveTarget target({SELF_EXECUTER, how});
    for (int i = 0; i < scaled(20, 200); ++i) {
      const FreezeRecord record = freeze_and(target.pid(), [&] {
        target.write_line("");
        REQUIRE(target.read_line() == "ready");
      });
      REQUIRE(record.method == FreezeMethod::kFork);
      CHECK(notes_of(record) == "");
      REQUIRE(footprint_of(target.pid()).children.empty());
    }
    check_end(target);
  }
}

TEST_CASE("a program that has taken the place of the one that was looked at is not read for it") {
  for (const FreezeChoice choice : {FreezeChoice::kFork, FreezeChoice::kStop}) {
    CAPTURE(static_cast<int>(choice));
    LiveTarget target({SELF_EXECUTER, "leader"});
    FreezeOptions options = choose(choice);
    options.program = ProgramIdentity::of_process(ProcFs(), target.pid());
    CHECK_NOTHROW(FrozenProcess(target.pid(), options).thaw());
    target.write_line("");
    REQUIRE(target.read_line() == "ready");
    CHECK_THROWS_AS(FrozenProcess(target.pid(), options), ProgramReplaced);
    REQUIRE(footprint_of(target.pid()).tracer == 0);
    options.program = ProgramIdentity::of_process(ProcFs(), target.pid());
    CHECK_NOTHROW(FrozenProcess(target.pid(), options).thaw());
    check_end(target);
  }
}

TEST_CASE("a thread is traced while it executes a program and waits for another traced one") {
  std::array<int, 2> tids{};
  std::array<int, 2> start{};
  REQUIRE(::pipe(tids.data()) == 0);
  REQUIRE(::pipe(start.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([&tids] {
      const pid_t tid = ::gettid();
      if (::write(tids[1], &tid, sizeof tid) != sizeof tid) ::_exit(1);
      while (true) ::pause();
    }).detach();
    char byte = 0;
    const bool is_ready = ::dup2(start[0], STDIN_FILENO) == STDIN_FILENO &&
                          ::close(start[1]) == 0 && ::read(STDIN_FILENO, &byte, 1) == 1;
    if (is_ready) ::execl("/bin/cat", "cat", nullptr);
    ::_exit(1);
  }
  pid_t other = 0;
  REQUIRE(::read(tids[0], &other, sizeof other) == sizeof other);
  std::vector<Tracee> traced{Tracee(child, other)};
  REQUIRE(traced.front().seize() == 0);
  REQUIRE(::write(start[1], "", 1) == 1);
  REQUIRE(eventually([other] {
    const auto task = ProcFs().try_stat(other);
    return task && task->is_dead();
  }));
  Tracee leader(child, child);
  REQUIRE(seize_reaping(leader, traced) == 0);
  CHECK(traced.front().poll());
  CHECK(traced.front().is_gone());
  leader.interrupt();
  CHECK(eventually([child] {
    const auto task = ProcFs().try_stat(child);
    return task && task->state == 't';
  }));
  leader.give_up_zombie();  // does not consume its stop
  CHECK(leader.wait(TraceClock::now() + std::chrono::seconds(10)));
  CHECK(leader.detach());
  ::close(start[1]);
  CHECK(status_of(child) == 0);
  for (const int end : {tids[0], tids[1], start[0]}) ::close(end);
}

TEST_CASE("a target that executes itself all the time is unharmed") {
  for (const std::string how : {"leader", "thread"}) {
    CAPTURE(how);
    LiveTarget target({SELF_EXECUTER, how, "free"});
    int frozen = 0;
    const int wanted = scaled(100, 400);
    for (int i = 0; i < wanted || (frozen == 0 && i < 10 * wanted); ++i) {
      try {
        const FreezeRecord record = freeze_and(target.pid(), [] {});
        CHECK(notes_of(record) == "");
        CHECK(footprint_of(target.pid()).children.empty());
        ++frozen;
      } catch (const Error& error) {
        // It executed another program in the middle of it.
        MESSAGE(std::string(error.what()));
      }
      REQUIRE(footprint_of(target.pid()).tracer == 0);
      REQUIRE(::waitpid(target.pid(), nullptr, WNOHANG) == 0);
    }
    CHECK(frozen > 0);
    check_end(target);
  }
}

TEST_CASE("a target that waits for any child is never given the copy") {
  LiveTarget target({ANY_WAITER});
  for (int i = 0; i < scaled(30, 300); ++i) {
    CHECK(notes_of(freeze_and(target.pid(), [] {})) == "");
    REQUIRE(footprint_of(target.pid()).children.size() == 1);
  }
  auto seen = target.finish();
  CHECK(target.exit_status() == 0);
  CHECK(seen.at("errors") == 0);
  CHECK(seen.at("strangers") == 0);
  CHECK(seen.at("rounds") > 0);
}

TEST_CASE("what a killed heapsnap left behind is reaped by the next one") {
  struct Case {
    std::vector<std::string> command;
    FreezeChoice next;
  };
  for (const Case& one :
       {Case{{LONE_SLEEPER}, FreezeChoice::kFork}, Case{{LONE_SLEEPER}, FreezeChoice::kStop},
        Case{{SIGNAL_SENDER, "handled"}, FreezeChoice::kFork}}) {
    CAPTURE(one.command.front());
    LiveTarget target(one.command);
    int left_over = 0;
    const int stride = scaled(5, 1);
    for (int step = 1; kill_after_step(step, [&] { freeze_and(target.pid(), [] {}); });
         step += stride) {
      CAPTURE(step);
      REQUIRE(eventually([&] { return children_of(target.pid(), false).empty(); }));
      left_over += static_cast<int>(children_of(target.pid(), true).size());
      FreezeOptions options = choose(FreezeChoice::kFork);
      options.choice = one.next;
      // The target may have made the clone of a killed one only now: the next one reaps that.
      std::string left = "not looked at";
      for (int attempt = 0; attempt < 3 && !left.empty(); ++attempt) {
        FrozenProcess frozen(target.pid(), options);
        frozen.thaw();
        CHECK(notes_of(frozen.record()) == "");
        left.clear();
        for (const int child : ProcFs().children(target.pid())) {
          left += ProcFs().try_read(child, "stat").value_or("it has just gone");
        }
      }
      REQUIRE(left == "");
    }
    CHECK(left_over > 0);
    check_end(target);
  }
}

TEST_CASE("a process that gets a signal at every stop is copied, and nothing of it is left") {
  for (const std::string action : {"ignored", "handled", "handled_elsewhere"}) {
    CAPTURE(action);
    LiveTarget target({SIGNAL_SENDER, action});
    for (int i = 0; i < scaled(30, 300); ++i) {
      copy_once(target.pid());
    }
    check_end(target);
  }
}

TEST_CASE("a process none of whose threads stands on a stack of its own is copied") {
  for (const std::string threads : {"0", "3"}) {
    CAPTURE(threads);
    LiveTarget target({FIBER_RUNNER, threads});
    const Footprint before = footprint_of(target.pid());
    for (int i = 0; i < scaled(30, 300); ++i) {
      copy_once(target.pid());
    }
    CHECK(difference("mapping", before.mappings, footprint_of(target.pid()).mappings) == "");
    check_end(target);
  }
}

}  // namespace heapsnap::live
