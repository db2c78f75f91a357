#include "platform/linux/trace/interrupted_syscall.h"

#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <span>

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

// Stops it by `sent`, or else as a session does, and lets it go on as a session does. Whether it
// stands in the same call a moment later.
bool goes_on(Tracee& thread, int sent = 0) {
  const auto deadline = TraceClock::now() + std::chrono::seconds(60);
  bool is_in_poll = false;
  // It may be stopped on its way to the call.
  while (TraceClock::now() < deadline && !is_in_poll) {
    if (sent == 0) {
      thread.interrupt();
    } else {
      ::kill(thread.process(), sent);
    }
    if (!thread.wait(deadline) || !thread.is_stopped()) return false;
    is_in_poll = thread.registers().orig_rax == SYS_poll;
    if (!is_in_poll) thread.resume();
  }
  if (const auto repaired = repaired_registers(thread)) thread.set_registers(*repaired);
  // The kernel decides about the call when it runs; the next stop shows what it has decided.
  thread.resume_to_syscall();
  return thread.wait(deadline) && thread.is_stopped();
}

void do_nothing(int) {}

// Waits for a byte in epoll_wait(2), and ends with the errno of that call.
[[noreturn]] void wait_in_epoll(int ready, int input, bool has_handler) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (has_handler) ::signal(SIGWINCH, do_nothing);
  const int queue = ::epoll_create1(0);
  epoll_event event{};
  event.events = EPOLLIN;
  ::epoll_ctl(queue, EPOLL_CTL_ADD, input, &event);
  ::syscall(SYS_write, ready, "r", 1);
  ::_exit(::epoll_wait(queue, &event, 1, -1) == 1 ? 0 : errno);
}

// The exit code of a process that gets SIGWINCH in epoll_wait(2) while it is traced.
int signalled_in_epoll(bool has_handler) {
  std::array<int, 2> ready{};
  std::array<int, 2> input{};
  REQUIRE(::pipe(ready.data()) == 0);
  REQUIRE(::pipe(input.data()) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) wait_in_epoll(ready[1], input[0], has_handler);
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  Tracee thread(pid, pid);
  REQUIRE(thread.seize() == 0);
  const auto deadline = TraceClock::now() + std::chrono::seconds(60);
  bool is_waiting = false;
  while (!is_waiting) {
    ::kill(pid, SIGWINCH);
    REQUIRE(thread.wait(deadline));
    REQUIRE(thread.stop() == Tracee::Stop::kSignal);
    is_waiting = thread.registers().orig_rax == SYS_epoll_wait;
    if (!is_waiting) thread.resume();
  }
  if (const auto repaired = repaired_registers(thread)) thread.set_registers(*repaired);
  REQUIRE(thread.detach());
  REQUIRE(::write(input[1], "x", 1) == 1);
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  for (const int end : {ready[0], ready[1], input[0], input[1]}) ::close(end);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a signal that a traced thread ignores does not break its call") {
  CHECK(signalled_in_epoll(false) == 0);
}

TEST_CASE("a signal that a traced thread handles breaks its call as ever") {
  CHECK(signalled_in_epoll(true) == EINTR);
}

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

TEST_CASE("a sleep that is stopped again before the kernel continues it is begun anew, too") {
  constexpr std::array<unsigned char, 7> kCode{0xb8, SYS_clock_nanosleep, 0, 0, 0, 0x0f, 0x05};
  const auto code = std::as_bytes(std::span(kCode));
  user_regs_struct registers{};
  registers.rip = 0x1000 + 5;
  registers.rax = SYS_restart_syscall;
  registers.orig_rax = SYS_clock_nanosleep;
  CHECK(call_end(registers) == 0x1000 + 7);
  const user_regs_struct anew = restarted_registers(registers, code);
  CHECK(anew.rip == registers.rip);
  CHECK(anew.rax == SYS_clock_nanosleep);
  CHECK(anew.orig_rax == static_cast<unsigned long long>(-1));
  // It is in the call.
  registers.rip = 0x1000 + 7;
  registers.rax = kRestartBlock;
  registers.orig_rax = SYS_restart_syscall;
  CHECK(call_end(registers) == registers.rip);
  CHECK(restarted_registers(registers, code).rax == SYS_clock_nanosleep);
  CHECK(restarted_registers(registers, code).rip == registers.rip - 2);
}

TEST_CASE("a thread whose filter kills for restart_syscall(2) never makes it") {
  Sleeper sleeper(true);
  Tracee thread(sleeper.pid(), sleeper.pid());
  REQUIRE(thread.seize(PTRACE_O_TRACESYSGOOD) == 0);
  REQUIRE(goes_on(thread));
  CHECK(thread.stop() == Tracee::Stop::kSyscall);
  CHECK(thread.registers().orig_rax == SYS_poll);
}

TEST_CASE("nor does it if an ignored signal stopped it") {
  Sleeper sleeper(true);
  Tracee thread(sleeper.pid(), sleeper.pid());
  REQUIRE(thread.seize(PTRACE_O_TRACESYSGOOD) == 0);
  REQUIRE(goes_on(thread, SIGWINCH));
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
