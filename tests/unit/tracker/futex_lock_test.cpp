#include "tracker/futex_lock.h"

#include <doctest/doctest.h>

using heapsnap::tracker::FutexLock;

TEST_CASE("a lock that is not given back is waited for once, and works when it is") {
  FutexLock lock;
  REQUIRE(lock.lock());
  // Each that waited would take a second.
  for (int i = 0; i < 10'000; ++i) REQUIRE_FALSE(lock.lock());
  lock.unlock();
  REQUIRE(lock.lock());
  CHECK_FALSE(lock.try_lock());
  lock.unlock();
  CHECK(lock.lock_soon());
}
