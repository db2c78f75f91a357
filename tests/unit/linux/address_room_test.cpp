#include "platform/linux/proc/address_room.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/unit/byte_units.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

const std::string kStatus = "VmPeak:\t20480 kB\nVmSize:\t10240 kB\nVmData:\t1024 kB\n";

std::string limit(const std::string& name, uint64_t bytes) {
  return name + " " + std::to_string(bytes) + " unlimited bytes\n";
}

}  // namespace

TEST_CASE("what a process has mapped once it may map again") {
  CHECK_FALSE(find_address_refusal(kStatus, "", 100 * kMiB));
  CHECK_FALSE(find_address_refusal(kStatus, "Max address space unlimited unlimited bytes\n", kMiB));
  // 20 MiB at its peak.
  const std::string space = limit("Max address space", 30 * kMiB);
  CHECK_FALSE(find_address_refusal(kStatus, space, 10 * kMiB));
  const auto refusal = find_address_refusal(kStatus, space, 10 * kMiB + 1);
  REQUIRE(refusal.has_value());
  CHECK(refusal->options == "--as=unlimited --data=unlimited");
  CHECK(refusal->why ==
        "ulimit -v of it is 30.0 MiB, of which it has used up to 20.0 MiB, and 10.0 MiB more may "
        "be needed");
  // 1 MiB now, and 10 MiB more at its peak.
  const std::string data = limit("Max data size", 12 * kMiB);
  CHECK_FALSE(find_address_refusal(kStatus, data, kMiB));
  CHECK(find_address_refusal(kStatus, data, kMiB + 1).has_value());
  // No more than the limit was ever used of it.
  CHECK(find_address_refusal(kStatus, limit("Max data size", 5 * kMiB), kMiB)->why ==
        "ulimit -d of it is 5.0 MiB, of which it has used up to 5.0 MiB, and 1.0 MiB more may be "
        "needed");
  // Lowered below what it has.
  CHECK(find_address_refusal(kStatus, limit("Max data size", kMiB / 2), 0).has_value());
}

TEST_CASE("what is mapped into a process that has locked all counts for what it may lock") {
  const std::string limits = "Max locked memory 8388608 8388608 bytes\n";
  const std::string all = "VmPeak:\t8000 kB\nVmSize:\t8000 kB\nVmLck:\t7900 kB\n";
  const std::string some = "VmPeak:\t8000 kB\nVmSize:\t8000 kB\nVmLck:\t64 kB\n";
  const std::string none = "CapEff:\t0000000000000000\n";
  const std::string may_lock = "CapEff:\t000001ffffffffff\n";
  CHECK(find_address_refusal(all + none, limits, kMiB).has_value());
  CHECK_FALSE(find_address_refusal(all + none, limits, 4096));
  CHECK_FALSE(find_address_refusal(all + may_lock, limits, kMiB));
  CHECK_FALSE(find_address_refusal(some + none, limits, kMiB));
}

TEST_CASE("a process near its last mapping gets none of ours") {
  CHECK_FALSE(find_mapping_refusal(64530, "65530\n"));
  CHECK(find_mapping_refusal(64531, "65530\n") ==
        "it has 64531 of the 65530 mappings that the kernel allows");
  CHECK(find_mapping_refusal(70000, "65530\n").has_value());  // the limit was lowered
  CHECK_FALSE(find_mapping_refusal(70000, ""));
}

TEST_CASE("threads get the stack that the main stack may grow to") {
  CHECK(default_thread_stack(limit("Max stack size", 8 * kMiB)) == 8 * kMiB);
  CHECK(default_thread_stack("Max stack size unlimited unlimited bytes\n") == 2 * kMiB);
}
