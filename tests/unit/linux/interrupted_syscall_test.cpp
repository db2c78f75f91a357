#include "platform/linux/trace/interrupted_syscall.h"

#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>

using namespace heapsnap;

namespace {

constexpr auto kRestartBlock = static_cast<unsigned long long>(-516);
constexpr auto kRestartNoHand = static_cast<unsigned long long>(-514);

// Sleeps in poll(2) until it is killed; restart_syscall(2) kills it where it is barred.
[[noreturn]] void sleep_in_poll(int ready, bool bars_restart) {
  constexpr auto kNumber = static_cast<uint32_t>(offsetof(seccomp_data, nr));
  std::array<sock_filter, 4> code{{{BPF_LD | BPF_W | BPF_ABS, 0, 0, kNumber},
                                   {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_restart_syscall},
                                   {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS},
                                   {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}}};
  const sock_fprog program{code.size(), code.data()};
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (bars_restart && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) ::_exit(1);
  ::syscall(SYS_write, ready, "r", 1);
  ::syscall(SYS_poll, nullptr, 0, 600'000);
  ::_exit(2);
}

class Sleeper {
 public:
  explicit Sleeper(bool bars_restart) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    pid_ = ::fork();
    if (pid_ == 0) sleep_in_poll(ends[1], bars_restart);
    char byte = 0;
    REQUIRE(::read(ends[0], &byte, 1) == 1);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Sleeper() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

// Lets it go on as a session does. Whether it stands in the same call a moment later.
bool goes_on(Tracee& thread) {
  const auto deadline = TraceClock::now() + std::chrono::seconds(60);
  bool is_in_poll = false;
  // It may be stopped on its way to the call.
  while (TraceClock::now() < deadline && !is_in_poll) {
    thread.interrupt();
    if (!thread.wait(deadline) || !thread.is_stopped()) return false;
    is_in_poll = thread.registers().orig_rax == SYS_poll;
    if (!is_in_poll) thread.resume();
  }
  if (const auto repaired = repaired_registers(thread)) thread.set_registers(*repaired);
  // The kernel decides about the call when it runs; the next stop shows what it has decided.
  thread.resume_to_syscall();
  return thread.wait(deadline) && thread.is_stopped();
}

}  // namespace

TEST_CASE("a sleep that the kernel would continue is begun anew") {
  user_regs_struct registers{};
  registers.orig_rax = SYS_poll;
  registers.rax = kRestartBlock;
  CHECK(is_continued_by_restart(registers));
  CHECK(begun_anew(registers).rax == kRestartNoHand);
  CHECK(begun_anew(registers).orig_rax == SYS_poll);
  registers.orig_rax = static_cast<unsigned long long>(-1);
  CHECK_FALSE(is_continued_by_restart(registers));
}

TEST_CASE("a thread whose filter kills for restart_syscall(2) never makes it") {
  Sleeper sleeper(true);
  Tracee thread(sleeper.pid(), sleeper.pid());
  REQUIRE(thread.seize(PTRACE_O_TRACESYSGOOD) == 0);
  REQUIRE(goes_on(thread));
  CHECK(thread.stop() == Tracee::Stop::kSyscall);
  CHECK(thread.registers().orig_rax == SYS_poll);
}

TEST_CASE("another thread goes on with the time that was left") {
  Sleeper sleeper(false);
  Tracee thread(sleeper.pid(), sleeper.pid());
  REQUIRE(thread.seize(PTRACE_O_TRACESYSGOOD) == 0);
  REQUIRE(goes_on(thread));
  CHECK(thread.registers().orig_rax == SYS_restart_syscall);
}
