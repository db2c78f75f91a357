#include "platform/linux/freeze/step_bursts.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace heapsnap;
using namespace std::chrono_literals;

namespace {

constexpr TraceClock::duration kStep = 10us;
constexpr TraceClock::duration kTime = 5s;

struct Steps {
  int taken = 0;
  int of_no_burst = 0;
  TraceClock::duration in_bursts{};
  TraceClock::duration longest_burst{};
};

// Of kTime, where a step that is of no burst waits for so long.
Steps take_steps(TraceClock::duration wait) {
  Steps steps;
  TraceClock::duration burst{};
  TraceClock::time_point now{};
  const TraceClock::time_point end = now + kTime;
  StepBursts bursts(now);
  while (now < end) {
    const bool is_burst = bursts.takes(now);
    if (bursts.wait() != 0s) {
      now += bursts.wait();
      burst = {};
      continue;
    }
    ++steps.taken;
    if (is_burst) {
      burst += kStep;
      now += kStep;
      steps.in_bursts += kStep;
      steps.longest_burst = std::max(steps.longest_burst, burst);
    } else {
      burst = {};
      ++steps.of_no_burst;
      now += kStep + wait;
    }
  }
  return steps;
}

}  // namespace

TEST_CASE("the first steps do not wait") {
  TraceClock::time_point now{};
  StepBursts bursts(now);
  for (int i = 0; i < 200; ++i, now += kStep) CHECK(bursts.takes(now));
}

TEST_CASE("bursts are a tenth of the time, and short, however long other steps wait") {
  for (const TraceClock::duration wait : {0us, 1000us, 30'000us, 100'000us, 2'000'000us}) {
    CAPTURE(wait.count());
    const Steps steps = take_steps(wait);
    CHECK(steps.in_bursts <= kTime / 10 + 2ms + 2 * kStep);
    CHECK(steps.longest_burst <= 12ms);
  }
}

TEST_CASE("steps that do not wait are taken all the time") {
  CHECK(take_steps(0us).taken == kTime / kStep);
  CHECK(take_steps(1ms).of_no_burst > 4'000);
}

TEST_CASE("after one that waits, steps are taken in bursts alone for ten times as long") {
  for (const TraceClock::duration wait : {30'000us, 100'000us, 2'000'000us}) {
    CAPTURE(wait.count());
    const Steps steps = take_steps(wait);
    CHECK(steps.of_no_burst >= 1);
    CHECK((steps.of_no_burst - 1) * wait <= kTime / 10);
    CHECK(steps.taken > 25'000);
  }
}

TEST_CASE("after one that was delayed once, all steps are taken soon") {
  TraceClock::time_point now{};
  StepBursts bursts(now);
  while (bursts.takes(now)) now += kStep;
  now += 10ms;  // the delay
  const TraceClock::time_point end = now + 130ms;
  while (now < end) {
    bursts.takes(now);
    now += bursts.wait() != 0s ? bursts.wait() : kStep;
  }
  CHECK_FALSE(bursts.steps_wait());
  CHECK(bursts.wait() == 0s);
}

TEST_CASE("a burst in which heapsnap was stopped is paid back in a moment") {
  TraceClock::time_point now{};
  StepBursts bursts(now);
  CHECK(bursts.takes(now));
  now += 10s;
  CHECK_FALSE(bursts.takes(now));
  now += 5ms;
  CHECK_FALSE(bursts.takes(now));
  CHECK(bursts.steps_wait());
  CHECK(bursts.wait() <= 120ms);
  now += bursts.wait();
  CHECK(bursts.takes(now));
}

TEST_CASE("what is no step is of no burst, and no step that waited") {
  TraceClock::time_point now{};
  StepBursts bursts(now);
  CHECK(bursts.takes(now));
  now += 1ms;
  bursts.leave(now);
  now += 50ms;
  CHECK(bursts.takes(now));
  CHECK_FALSE(bursts.steps_wait());
  now += 8ms;
  CHECK_FALSE(bursts.takes(now));
}
