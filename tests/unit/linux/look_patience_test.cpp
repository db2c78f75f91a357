#include "platform/linux/remote_call/look_patience.h"

#include <doctest/doctest.h>

using namespace heapsnap;

namespace {

// How many looks there are, each of which takes so long.
int looks_that_take(std::chrono::milliseconds each) {
  TraceClock::time_point now{};
  LookPatience patience(now);
  int looks = 1;
  for (now += each; patience.bears_another(now); now += each) ++looks;
  return looks;
}

}  // namespace

TEST_CASE("a busy machine leaves as many looks as a quiet one") {
  CHECK(looks_that_take(std::chrono::milliseconds(10)) == 500);
  CHECK(looks_that_take(std::chrono::milliseconds(100)) == 200);
  CHECK(looks_that_take(std::chrono::milliseconds(250)) == 200);
}

TEST_CASE("after a minute it is over") {
  CHECK(looks_that_take(std::chrono::seconds(2)) == 30);
}

TEST_CASE("the words tell how many looks there were") {
  TraceClock::time_point now{};
  LookPatience patience(now);
  now += std::chrono::seconds(3);
  REQUIRE(patience.bears_another(now));
  CHECK(patience.text(now) == ", each of the 2 times that it was checked in 3 s");
}
