#include "platform/linux/trace/priority_inheritance.h"

#include <doctest/doctest.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <sstream>
#include <string>
#include <thread>

#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/self/realtime_limit.h"
#include "platform/linux/self/realtime_priority.h"
#include "platform/linux/self/task_priority.h"

using namespace heapsnap;

namespace {

// A child of ours that only waits.
class SleepingProcess {
 public:
  SleepingProcess() : pid_(::fork()) {
    while (pid_ == 0) ::pause();
  }
  // As another user.
  explicit SleepingProcess(uid_t user) : pid_(::fork()) {
    if (pid_ == 0) {
      if (::setresuid(user, user, user) != 0) ::_exit(1);
      ::raise(SIGSTOP);
      while (true) ::pause();
    }
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  SleepingProcess(const SleepingProcess&) = delete;
  SleepingProcess& operator=(const SleepingProcess&) = delete;
  ~SleepingProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

// Of the calling thread.
void drop_capability(unsigned capability) {
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  REQUIRE(::syscall(SYS_capget, &head, sets.data()) == 0);
  sets.at(capability / 32).effective &= ~(1U << (capability % 32));
  REQUIRE(::syscall(SYS_capset, &head, sets.data()) == 0);
}

// "priority" of proc_pid_stat(5): negative for real-time ones, inherited ones included.
long priority_of(pid_t pid) {
  const std::string stat = ProcFs().try_read(pid, "stat").value_or(std::string());
  std::istringstream fields(stat.substr(stat.rfind(')') + 1));
  std::string field;
  for (int number = 3; number <= 18; ++number) fields >> field;
  return std::stol(field);
}

bool comes_to_inherit(PriorityInheritance& inheritance, pid_t pid) {
  inheritance.raise(pid);
  for (int i = 0; i < 200; ++i) {
    if (priority_of(pid) < 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace

TEST_CASE("ours are above the real-time priority of each thread that was to be outranked") {
  const SleepingProcess ordinary;
  outrank(ordinary.pid());
  CHECK(inherited_priority() == 1);
  CHECK(tracer_priority() == 2);
  const SleepingProcess realtime;
  sched_param parameters{};
  parameters.sched_priority = 5;
  if (::sched_setscheduler(realtime.pid(), SCHED_FIFO, &parameters) != 0) {
    MESSAGE("skipped: real-time priorities are not permitted here");
    return;
  }
  outrank(realtime.pid());
  outrank(ordinary.pid());
  CHECK(inherited_priority() == 6);
  CHECK(tracer_priority() == 7);
  const RealtimePriority priority;
  REQUIRE(::sched_getparam(0, &parameters) == 0);
  CHECK(parameters.sched_priority == 7);
}

TEST_CASE("the limit is known of every user's process, without CAP_SYS_RESOURCE") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can start processes of others");
    return;
  }
  constexpr uid_t kNobody = 65534;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_RTTIME, &before) == 0);
  const rlimit limit{1'000'000, before.rlim_max};
  const SleepingProcess ordinary(kNobody);
  REQUIRE(::setrlimit(RLIMIT_RTTIME, &limit) == 0);
  const SleepingProcess limited(kNobody);
  REQUIRE(::setrlimit(RLIMIT_RTTIME, &before) == 0);
  std::thread([&] {
    drop_capability(CAP_SYS_RESOURCE);
    CHECK(has_realtime_limit(limited.pid()));
    CHECK_FALSE(has_realtime_limit(ordinary.pid()));
  }).join();
}

TEST_CASE("a thread inherits the priority, unless it could be killed for running at it") {
  const SleepingProcess ordinary;
  const SleepingProcess limited;
  const RealtimePriority priority;
  PriorityInheritance inheritance;
  if (!comes_to_inherit(inheritance, ordinary.pid())) {
    MESSAGE("skipped: real-time priorities are not permitted here, or there is one processor");
    return;
  }
  inheritance.end();
  CHECK(priority_of(ordinary.pid()) >= 0);
  const rlimit limit{1'000'000, RLIM_INFINITY};
  REQUIRE(::prlimit(limited.pid(), RLIMIT_RTTIME, &limit, nullptr) == 0);
  CHECK(has_realtime_limit(limited.pid()));
  CHECK_FALSE(has_realtime_limit(ordinary.pid()));
  CHECK_FALSE(comes_to_inherit(inheritance, limited.pid()));
  // A thread is asked for again and again until it has stopped, but its limit is looked up once.
  const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
  REQUIRE(::prlimit(limited.pid(), RLIMIT_RTTIME, &none, nullptr) == 0);
  CHECK_FALSE(comes_to_inherit(inheritance, limited.pid()));
  CHECK(comes_to_inherit(inheritance, ordinary.pid()));
  CHECK(comes_to_inherit(inheritance, limited.pid()));
}
