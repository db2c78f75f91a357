// Work in a process of its own, within bounds (platform/linux/self/bounded_work.h).
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "base/alteration.h"
#include "platform/linux/self/bounded_work.h"

using namespace heapsnap;
using namespace std::chrono_literals;

namespace {

WorkResult bounded(const std::function<std::string()>& work, const WorkBounds& bounds) {
  return do_bounded(
      work, [](const std::exception& error) { return std::string(error.what()); }, bounds);
}

// Works until it is asked to end.
std::string spin() {
  while (!is_end_asked()) {
  }
  return "ended in order";
}

}  // namespace

TEST_CASE("what the work says comes back, however long") {
  const WorkResult result = bounded([] { return std::string("all\0of it", 9); }, {10s, 10s});
  CHECK(result.end == WorkEnd::kDone);
  CHECK(result.said == std::string("all\0of it", 9));
  CHECK(bounded([] { return std::string(50'000, 'x'); }, {}).said.size() == 50'000);
  CHECK(bounded([] { return std::string(); }, {}).end == WorkEnd::kDone);
}

TEST_CASE("work that takes too long is ended") {
  const auto begin = std::chrono::steady_clock::now();
  const WorkResult result = bounded(
      [] {
        std::this_thread::sleep_for(60s);
        return std::string("late");
      },
      {200ms, 0s});
  CHECK(result.end == WorkEnd::kOutOfTime);
  CHECK(result.said.empty());
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
}

TEST_CASE("work that takes too much processor time is ended") {
  const auto used_ms = [] {
    rusage usage{};
    ::getrusage(RUSAGE_CHILDREN, &usage);
    const auto ms = [](const timeval& time) { return time.tv_sec * 1000 + time.tv_usec / 1000; };
    return ms(usage.ru_utime) + ms(usage.ru_stime);
  };
  const auto before = used_ms();
  const WorkResult result = bounded(spin, {60s, 100ms});
  CHECK(result.end == WorkEnd::kOutOfProcessorTime);
  CHECK(used_ms() - before >= 90);
  CHECK(used_ms() - before < 600);
}

TEST_CASE("work that is killed says nothing") {
  const WorkResult result = bounded(
      [] {
        ::kill(::getpid(), SIGKILL);
        return std::string("never");
      },
      {});
  CHECK(result.end == WorkEnd::kKilled);
  CHECK(result.signal == SIGKILL);
}

TEST_CASE("who is asked to end asks the work to end, and learns by which signal") {
  const pid_t self = ::getpid();
  const WorkResult result = bounded(
      [self] {
        ::kill(self, SIGTERM);
        return spin();
      },
      {60s, 0s});
  CHECK(result.end == WorkEnd::kAsked);
  CHECK(result.signal == SIGTERM);
}
