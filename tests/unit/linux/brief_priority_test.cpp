#include "platform/linux/self/brief_priority.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "platform/linux/self/realtime_priority.h"
#include "platform/linux/self/task_priority.h"
#include "tests/eventually.h"

using namespace heapsnap;
using namespace std::chrono_literals;

namespace {

int own_policy() {
  return ::sched_getscheduler(0);
}

// Of the calling thread.
int own_nice() {
  return ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
}

int policy_of_new_thread() {
  int policy = -1;
  std::thread([&policy] { policy = own_policy(); }).join();
  return policy;
}

bool is_skipped() {
  if (gets_realtime_priority()) return false;
  MESSAGE("skipped: this process gets no real-time priority");
  return true;
}

}  // namespace

TEST_CASE("it begins when it is told to, and ends with the scope") {
  if (is_skipped()) return;
  {
    BriefPriority priority;
    CHECK(own_policy() == SCHED_OTHER);
    priority.begin();
    CHECK(is_realtime(own_policy()));
    CHECK(policy_of_new_thread() == SCHED_OTHER);
  }
  CHECK(own_policy() == SCHED_OTHER);
}

TEST_CASE("it ends in time, in the middle of the scope") {
  if (is_skipped()) return;
  BriefPriority priority;
  priority.begin();
  priority.end_after(20ms);
  CHECK(eventually([] { return !is_realtime(own_policy()); }));
  CHECK(own_policy() == SCHED_OTHER);
}

TEST_CASE("it comes again, also where the flag of the time before has stayed") {
  if (is_skipped()) return;
  std::thread([] {
    REQUIRE(set_policy(0, SCHED_OTHER | SCHED_RESET_ON_FORK, 0));
    {
      BriefPriority priority;
      priority.begin();
      CHECK(is_realtime(own_policy()));
    }
    CHECK(own_policy() == (SCHED_OTHER | SCHED_RESET_ON_FORK));
    CHECK(gets_realtime_priority());
  }).join();
}

TEST_CASE("each policy that is not real-time is raised and set again, with the nice value") {
  if (is_skipped()) return;
  constexpr std::array<int, 3> kPolicies{SCHED_OTHER, SCHED_BATCH, SCHED_IDLE};
  static constexpr int kNice = 7;
  for (const int policy : kPolicies) {
    CAPTURE(policy);
    std::thread([policy] {
      REQUIRE(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice) == 0);
      REQUIRE(set_policy(0, policy, 0));
      {
        BriefPriority priority;
        priority.begin();
        CHECK(is_realtime(own_policy()));
      }
      CHECK(own_policy() == policy);
      {
        const RealtimePriority priority;
        CHECK(is_realtime(own_policy()));
      }
      CHECK(own_policy() == policy);
      CHECK(own_nice() == kNice);
    }).join();
  }
}

TEST_CASE("it leaves a thread alone that is real-time already") {
  if (is_skipped()) return;
  std::thread([] {
    REQUIRE(set_policy(0, SCHED_RR, 1));
    {
      BriefPriority priority;
      priority.begin();
      CHECK(own_policy() == SCHED_RR);
      priority.end_after(0ms);
    }
    CHECK(own_policy() == SCHED_RR);
  }).join();
}
