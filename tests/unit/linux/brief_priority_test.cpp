#include "platform/linux/self/brief_priority.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <thread>

#include "platform/linux/self/realtime_priority.h"

using namespace heapsnap;
using namespace std::chrono_literals;

namespace {

int policy_of_new_thread() {
  int policy = -1;
  std::thread([&policy] { policy = ::sched_getscheduler(0); }).join();
  return policy;
}

bool is_realtime() {
  return (::sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == SCHED_FIFO;
}

bool is_skipped() {
  if (gets_realtime_priority()) return false;
  MESSAGE("skipped: this process gets no real-time priority");
  return true;
}

}  // namespace

TEST_CASE("it lasts while the caller waits, and ends with the scope") {
  if (is_skipped()) return;
  {
    BriefPriority priority;
    CHECK(::sched_getscheduler(0) == SCHED_OTHER);
    priority.begin();
    CHECK(is_realtime());
    CHECK(policy_of_new_thread() == SCHED_OTHER);
    std::this_thread::sleep_for(5ms);
    CHECK(is_realtime());
  }
  CHECK(::sched_getscheduler(0) == SCHED_OTHER);
}

TEST_CASE("it ends in time, whatever the caller does") {
  if (is_skipped()) return;
  BriefPriority priority;
  priority.begin();
  priority.end_after(20ms);
  while (is_realtime()) {
  }
  CHECK(::sched_getscheduler(0) == SCHED_OTHER);
}

TEST_CASE("it comes again, also where the flag of the time before has stayed") {
  if (is_skipped()) return;
  std::thread([] {
    const sched_param none{};
    REQUIRE(::sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none) == 0);
    {
      BriefPriority priority;
      priority.begin();
      CHECK(is_realtime());
    }
    CHECK(::sched_getscheduler(0) == (SCHED_OTHER | SCHED_RESET_ON_FORK));
    CHECK(gets_realtime_priority());
  }).join();
}

TEST_CASE("it leaves alone what was set") {
  std::thread([] {
    const sched_param none{};
    REQUIRE(::sched_setscheduler(0, SCHED_IDLE, &none) == 0);
    {
      BriefPriority priority;
      priority.begin();
      CHECK(::sched_getscheduler(0) == SCHED_IDLE);
      priority.end_after(0ms);
    }
    CHECK(::sched_getscheduler(0) == SCHED_IDLE);
    REQUIRE(::sched_setscheduler(0, SCHED_BATCH, &none) == 0);
    {
      BriefPriority priority;
      priority.begin();
      CHECK(::sched_getscheduler(0) != SCHED_OTHER);
    }
    CHECK(::sched_getscheduler(0) == SCHED_BATCH);
  }).join();
}
