#include "heap/discovery/mp_counters.h"

#include <doctest/doctest.h>

#include "tests/unit/heap/fake_target.h"

using namespace heapsnap;

namespace {

constexpr Address kPar(0x7f200340);

struct CountersFixture {
  FakeTarget target;
  MallocLayout layout;

  CountersFixture(Machine machine, int minor)
      : target(machine), layout(MallocLayout::for_version(machine, {2, minor}).value()) {
    target.map("56000000-56021000 rw-p 00000000 00:00 0 [heap]");
    target.map("7f200000-7f202000 rw-p 001d0000 fe:01 7 /lib/libc.so.6");
    put_initial();
  }
  void put_initial() {
    const auto& par = layout.par;
    for (const uint64_t threshold : {uint64_t{0}, uint64_t{layout.word}, par.mmap_threshold}) {
      target.put_word(kPar + threshold, 128 << 10);
    }
    target.put_word(kPar + par.arena_test, layout.word == 4 ? 2 : 8);
    target.put<uint32_t>(kPar + par.n_mmaps_max, 65536);
    target.put_word(kPar + par.sbrk_base, 0x56000000);
    if (layout.tcache.exists) target.put_word(kPar + par.tcache_count, 7);
  }
  void put_mmaps(uint32_t count, uint32_t most, uint64_t bytes) {
    target.put<uint32_t>(kPar + layout.par.n_mmaps, count);
    target.put<uint32_t>(kPar + layout.par.max_n_mmaps, most);
    target.put_word(kPar + layout.par.mmapped_mem, bytes);
  }
  std::optional<MpCounters> read() { return read_mp_counters(target, layout, kPar); }
  std::optional<Address> scan() {
    std::vector<std::byte> data(0x2000);
    REQUIRE(target.memory().read_exact(Address(0x7f200000), data));
    return scan_for_malloc_par(target, layout, Address(0x7f200000), data);
  }
};

}  // namespace

TEST_CASE("the counters are read on every machine and version") {
  for (const Machine machine : {Machine::kX86_64, Machine::kAarch64, Machine::kI386}) {
    for (const int minor : {17, 24, 26, 36, 43, 44}) {
      CAPTURE(minor);
      CountersFixture process(machine, minor);
      process.put_mmaps(3, 5, 0x9000);
      const auto counters = process.read();
      REQUIRE(counters);
      CHECK(counters->n_mmaps == 3);
      CHECK(counters->mmapped_mem == 0x9000);
      CHECK(counters->tcache_count == (minor < 26 ? 0 : 7));
      CHECK(counters->sbrk_base == Address(0x56000000));
      CHECK(process.scan() == kPar);
    }
  }
}

TEST_CASE("2.43 counts some bytes too many, which is no reason to doubt") {
  CountersFixture process(Machine::kX86_64, 43);
  process.put_mmaps(0, 5, 96);
  CHECK(process.read());
}

TEST_CASE("impossible counters are refused") {
  CountersFixture process(Machine::kX86_64, 36);
  REQUIRE(process.read());
  process.put_mmaps(6, 5, 0x9000);  // more than ever
  CHECK_FALSE(process.read());
  process.put_mmaps(3, 5, 0x2000);  // less than a page each
  CHECK_FALSE(process.read());
  process.put_mmaps(0, 0, 0x2000);  // bytes without chunks
  CHECK_FALSE(process.read());
  process.put_mmaps(0x80000000, 0x80000000, UINT64_MAX);
  CHECK_FALSE(process.read());
  process.put_mmaps(0, 0, 0);
  process.target.put_word(kPar + process.layout.par.tcache_count, 1 << 20);
  CHECK_FALSE(process.read());
}

TEST_CASE("counters lie in writable memory, on a word, and are not all zero") {
  CountersFixture process(Machine::kX86_64, 36);
  process.target.map("10000000-10001000 r--p 00000000 fe:01 7 /lib/libc.so.6");
  for (const Address address : {Address(), kPar + 4, Address(0x10000000), Address(0x7f201ff0),
                                Address(0x7f201000), Address(UINT64_MAX - 7)}) {
    CAPTURE(address.value());
    CHECK_FALSE(read_mp_counters(process.target, process.layout, address));
  }
}

TEST_CASE("a scan for mp_ needs the defaults and a heap that is there") {
  CountersFixture process(Machine::kX86_64, 36);
  process.target.put_word(kPar + process.layout.par.sbrk_base, 0);
  CHECK_FALSE(process.scan());
  process.target.put_word(kPar + process.layout.par.sbrk_base, 0x77000000);
  CHECK_FALSE(process.scan());
  process.target.put_word(kPar + process.layout.par.sbrk_base, 0x56000000);
  process.target.put<uint32_t>(kPar + process.layout.par.n_mmaps_max, 100);
  CHECK_FALSE(process.scan());
}
