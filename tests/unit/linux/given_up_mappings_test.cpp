#include "platform/linux/freeze/given_up_mappings.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>

using namespace heapsnap;

namespace {

// Memory of which each byte can be read, and is `byte`.
class AllOf final : public MemoryReader {
 public:
  explicit AllOf(std::byte byte) : byte_(byte) {}
  size_t read(Address, std::span<std::byte> out) override {
    std::fill(out.begin(), out.end(), byte_);
    return out.size();
  }

 private:
  std::byte byte_;
};

HalfGivenUpMemory memory_of(const char* line) {
  GivenUpMappings given_up;
  for (const Mapping& mapping : parse_maps(line)) given_up.add(mapping);
  return {std::make_unique<AllOf>(std::byte{1}), std::make_unique<AllOf>(std::byte{2}), given_up};
}

}  // namespace

TEST_CASE("what a copy has given up is read from the target, up to its borders") {
  HalfGivenUpMemory memory = memory_of("00002000-00003000 r--s 00000000 08:01 7 /usr/lib/cache\n");
  std::array<std::byte, 0x3000> bytes{};
  REQUIRE(memory.read(Address(0x1000), bytes) == bytes.size());
  CHECK(bytes[0xfff] == std::byte{1});
  CHECK(bytes[0x1000] == std::byte{2});
  CHECK(bytes[0x1fff] == std::byte{2});
  CHECK(bytes[0x2000] == std::byte{1});
}

TEST_CASE("a read at the end of all addresses ends") {
  HalfGivenUpMemory memory = memory_of("00002000-00003000 r--s 00000000 08:01 7 /usr/lib/cache\n");
  std::array<std::byte, 16> bytes{};
  CHECK(memory.read(Address(~uint64_t{0}), bytes) == 0);
  CHECK(memory.read(Address(~uint64_t{0} - 3), bytes) == 3);
}
