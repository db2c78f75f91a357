#include "base/address.h"

#include <doctest/doctest.h>

#include <limits>

using namespace heapsnap;

TEST_CASE("aligning stays within the address space") {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  CHECK(Address(0).align_up(4096) == Address(0));
  CHECK(Address(1).align_up(4096) == Address(4096));
  CHECK(Address(4096).align_up(4096) == Address(4096));
  CHECK(Address(4097).align_down(4096) == Address(4096));
  // Not 0, from where a search that goes up would begin anew.
  CHECK(Address(kMost).align_up(4096) == Address(kMost - 4095));
  CHECK(Address(kMost - 4095).align_up(4096) == Address(kMost - 4095));
}
