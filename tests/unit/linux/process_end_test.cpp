#include "platform/linux/proc/process_end.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <span>
#include <thread>

#include "platform/linux/proc/process_memory.h"
#include "platform/linux/proc/target_refusal.h"

using namespace heapsnap;

namespace {

using EndClock = std::chrono::steady_clock;

// A child that does nothing until it is ended.
class EndlessChild {
 public:
  EndlessChild() : pid_(::fork()) {
    if (pid_ == 0) {
      while (true) ::pause();
    }
    REQUIRE(pid_ > 0);
  }
  EndlessChild(const EndlessChild&) = delete;
  EndlessChild& operator=(const EndlessChild&) = delete;
  ~EndlessChild() {
    if (pid_ <= 0) return;
    kill();
    reap();
  }

  pid_t pid() const { return pid_; }
  void kill() const { ::kill(pid_, SIGKILL); }
  void reap() {
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
};

}  // namespace

TEST_CASE("a process that runs has not ended, and a wait lasts until its deadline") {
  const EndlessChild child;
  const ProcessEnd end(ProcFs(), child.pid());
  CHECK_FALSE(end.has_come());
  const EndClock::time_point deadline = EndClock::now() + std::chrono::milliseconds(20);
  CHECK_FALSE(end.wait_until(deadline));
  CHECK(EndClock::now() >= deadline);
}

TEST_CASE("memory of a process that has ended says what to do") {
  EndlessChild child;
  std::byte byte{};
  ProcessMemory memory(ProcFs(), child.pid(), ProcessMemory::Way::kProcMem);
  CHECK(memory.read(Address(reinterpret_cast<uintptr_t>(&byte)), std::span(&byte, 1)) == 1);
  child.kill();
  child.reap();
  try {
    memory.read(Address(reinterpret_cast<uintptr_t>(&byte)), std::span(&byte, 1));
    FAIL("it was read");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kNoProcess);
    CHECK(error.remedy() == kFindSuccessor);
  }
}

TEST_CASE("the end of a process ends a wait, and nobody need have reaped it") {
  EndlessChild child;
  const ProcessEnd end(ProcFs(), child.pid());
  std::thread killer([&] { child.kill(); });
  CHECK(end.wait_until(EndClock::now() + std::chrono::minutes(10)));
  killer.join();
  CHECK(end.has_come());
  child.reap();
  CHECK(end.has_come());
  CHECK(end.wait_until(EndClock::now()));
}

TEST_CASE("the end of a process that is not there cannot be waited for") {
  EndlessChild child;
  const pid_t pid = child.pid();
  child.kill();
  child.reap();
  CHECK_THROWS_AS(ProcessEnd(ProcFs(), pid), TargetRefusal);
}
