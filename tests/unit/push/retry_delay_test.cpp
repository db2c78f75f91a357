#include "tools/push/retry_delay.h"

#include <doctest/doctest.h>

using namespace heapsnap;

TEST_CASE("what a server may answer otherwise later") {
  for (const int status : {429, 500, 502, 503, 504}) CHECK(is_passing_status(status));
  for (const int status : {200, 301, 400, 401, 404, 413, 422, 501, 505, 600}) {
    CHECK_FALSE(is_passing_status(status));
  }
}

TEST_CASE("twice as long each time, up to half a minute, and at random from half of it on") {
  CHECK(retry_delay_ms(0, 0, {}) == 250);
  CHECK(retry_delay_ms(0, 1, {}) == 500);
  CHECK(retry_delay_ms(3, 1, {}) == 4000);
  CHECK(retry_delay_ms(6, 1, {}) == 30'000);
  CHECK(retry_delay_ms(4'000'000'000, 1, {}) == 30'000);
  CHECK(retry_delay_ms(0, 1e9, {}) == 500);
}

TEST_CASE("a server that says when is waited for") {
  CHECK(retry_delay_ms(0, 0, 7) == 7000);
  CHECK(retry_delay_ms(6, 1, 7) == 30'000);
}
