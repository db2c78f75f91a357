#include "references/static_tls.h"

#include <doctest/doctest.h>

#include "fake_module.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

constexpr Address kThread{0x7f0000008740};
constexpr Address kDtv{0x7f0000001010};

// A dtv of `length` entries behind dtv[0]; all are not allocated.
void put_dtv(FakeTarget& target, uint64_t length) {
  const unsigned word = word_size(target.process().machine);
  const bool is_variant_one = target.process().machine == Machine::kAarch64;
  target.put_word(kThread + (is_variant_one ? 0 : word), kDtv.value());
  target.put_word(kDtv - 2 * word, length);
  for (uint64_t i = 1; i <= length && i < 32; ++i) {
    target.put_word(kDtv + i * 2 * word, UINT64_MAX);
  }
}

int64_t program_offset(Machine machine, uint64_t address, uint64_t size, uint64_t alignment) {
  FakeTarget target(machine);
  target.editable_process().exe = "/bin/program";
  FakeModule module;
  module.machine = machine;
  module.tls = {PT_TLS, PF_R, 0x1000, address, 0, size, alignment};
  module.load(target, Address(0x10000), "/bin/program");
  const ModuleTls found = find_module_tls(target, LoadedModules(target));
  REQUIRE(found.blocks.size() == 1);
  CHECK(found.blocks[0].size == size);
  return found.blocks[0].offset;
}

}  // namespace

TEST_CASE("the program's block is right below the thread pointer, or behind two words") {
  // By gcc and ld: the offset of the last of `size` bytes is -1 or less, by the alignment.
  CHECK(program_offset(Machine::kX86_64, 0x1000, 0x18, 8) == -0x18);
  CHECK(program_offset(Machine::kX86_64, 0x1000, 0x14, 8) == -0x18);
  CHECK(program_offset(Machine::kX86_64, 0x1000, 0x14, 64) == -0x40);
  CHECK(program_offset(Machine::kX86_64, 0x1000, 0x1, 1) == -0x1);
  CHECK(program_offset(Machine::kX86_64, 0x1000, 0x1, 0) == -0x1);
  CHECK(program_offset(Machine::kI386, 0x1000, 0x14, 16) == -0x20);
  CHECK(program_offset(Machine::kAarch64, 0x1000, 0x14, 8) == 0x10);
  CHECK(program_offset(Machine::kAarch64, 0x1000, 0x14, 64) == 0x40);
}

TEST_CASE("sizes and alignments that no program has") {
  const std::vector<std::pair<uint64_t, uint64_t>> odd = {
      {UINT64_MAX, 8}, {0x18, 3}, {0x18, uint64_t{1} << 63}, {0, 8}};
  for (const auto& [size, alignment] : odd) {
    FakeTarget target(Machine::kX86_64);
    target.editable_process().exe = "/bin/program";
    FakeModule module;
    module.tls = {PT_TLS, PF_R, 0x1000, 0x1000, 0, size, alignment};
    module.load(target, Address(0x10000), "/bin/program");
    CHECK(find_module_tls(target, LoadedModules(target)).blocks.empty());
  }
}

TEST_CASE("what a dtv leads to, on each machine") {
  for (const Machine machine : {Machine::kX86_64, Machine::kAarch64, Machine::kI386}) {
    CAPTURE(static_cast<int>(machine));
    const unsigned word = word_size(machine);
    FakeTarget target(machine);
    // As far as 32 bits reach.
    target.map("7f0000000000-7f0000010000 rw-p 00000000 00:00 0");
    if (machine == Machine::kI386) continue;
    put_dtv(target, 14);
    target.put_word(kDtv + 2 * word, 0x7f0000008700);      // static
    target.put_word(kDtv + 3 * 2 * word, 0x7f0000005040);  // from malloc
    target.put_word(kDtv + 3 * 2 * word + word, 0x7f0000005010);
    target.put_word(kDtv + 4 * 2 * word, 0x7f0000006000);
    target.put_word(kDtv + 4 * 2 * word + word, 1);  // glibc 2.24: it is static
    const auto dtv = read_dtv(target.memory(), machine, kThread);
    REQUIRE(dtv);
    CHECK(dtv->begin == kDtv - 2 * word);
    const std::vector<DtvEntry> expected = {{1, Address(0x7f0000008700), Address()},
                                            {3, Address(0x7f0000005040), Address(0x7f0000005010)},
                                            {4, Address(0x7f0000006000), Address()}};
    CHECK(dtv->entries == expected);
  }
}

TEST_CASE("a dtv that is none") {
  FakeTarget target(Machine::kX86_64);
  target.map("7f0000000000-7f0000010000 rw-p 00000000 00:00 0");
  CHECK_FALSE(read_dtv(target.memory(), Machine::kX86_64, kThread));
  CHECK_FALSE(read_dtv(target.memory(), Machine::kX86_64, Address(0x1000)));
  for (const uint64_t length : {uint64_t{0}, uint64_t{1} << 40, UINT64_MAX}) {
    put_dtv(target, length);
    CHECK_FALSE(read_dtv(target.memory(), Machine::kX86_64, kThread));
  }
  // One that reaches past the end of memory gives what is there.
  put_dtv(target, 4000);
  CHECK(read_dtv(target.memory(), Machine::kX86_64, kThread));
  for (const uint64_t pointer : {uint64_t{8}, uint64_t{0x7f0000001011}, UINT64_MAX - 7}) {
    target.put_word(kThread + 8, pointer);
    CHECK_FALSE(read_dtv(target.memory(), Machine::kX86_64, kThread));
  }
}
