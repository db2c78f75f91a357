#include "platform/linux/self/threads_apart.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <optional>

using namespace heapsnap;

namespace {

cpu_set_t processors() {
  cpu_set_t all;
  REQUIRE(::sched_getaffinity(0, sizeof all, &all) == 0);
  return all;
}

cpu_set_t processors_of_thread(const ThreadsApart& apart) {
  cpu_set_t its;
  apart.start([&its] { its = processors(); }).join();
  return its;
}

}  // namespace

TEST_CASE("two threads share all processors out, and the first one has them back at the end") {
  const cpu_set_t all = processors();
  if (CPU_COUNT(&all) < 2) {
    MESSAGE("skipped: this machine has one processor");
    return;
  }
  {
    const ThreadsApart apart;
    const cpu_set_t own = processors();
    const cpu_set_t rest = processors_of_thread(apart);
    cpu_set_t both;
    CPU_AND(&both, &own, &rest);
    CHECK(CPU_COUNT(&both) == 0);
    CPU_OR(&both, &own, &rest);
    CHECK(CPU_EQUAL(&both, &all));
    CHECK(CPU_COUNT(&rest) == CPU_COUNT(&all) / 2);
  }
  const cpu_set_t after = processors();
  CHECK(CPU_EQUAL(&after, &all));
}

TEST_CASE("two threads share the only processor that they may run on") {
  const cpu_set_t all = processors();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(::sched_getcpu()), &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  {
    const ThreadsApart apart;
    const cpu_set_t own = processors();
    const cpu_set_t rest = processors_of_thread(apart);
    CHECK(CPU_EQUAL(&own, &one));
    CHECK(CPU_EQUAL(&rest, &one));
  }
  REQUIRE(::sched_setaffinity(0, sizeof all, &all) == 0);
}
