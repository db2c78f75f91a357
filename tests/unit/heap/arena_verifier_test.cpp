#include "heap/discovery/arena_verifier.h"

#include <doctest/doctest.h>

#include "heap/discovery/arena_scan.h"
#include "tests/unit/heap/fake_arena.h"

using namespace heapsnap;

namespace {

constexpr Address kData(0x7f200000);  // libc's .data
constexpr Address kHeap(0x56000000);  // 8 mod 16 is where i386 puts chunks
constexpr Address kArena = kData + 0x460;

// Every kind of arena, in a process of its own.
struct ArenaFixture {
  FakeTarget target;
  FakeArena arena;

  explicit ArenaFixture(const MallocLayout& layout)
      : target(layout.machine), arena{target, layout, kArena} {
    target.map("56000000-56021000 rw-p 00000000 00:00 0 [heap]");
    target.map("7f200000-7f202000 rw-p 001d0000 fe:01 7 /lib/libc.so.6");
    target.map("7f202000-7f210000 rw-p 00000000 00:00 0 ");
  }
  Address chunk(uint64_t offset) const {
    return kHeap + offset + (arena.layout.machine == Machine::kI386 ? 8 : 0);
  }
  ArenaCheck check() { return check_arena(target, arena.layout, kArena); }
};

MallocLayout layout_of(Machine machine, int minor) {
  return MallocLayout::for_version(machine, {2, minor}).value();
}
std::vector<MallocLayout> every_layout() {
  std::vector<MallocLayout> layouts;
  for (const Machine machine : {Machine::kX86_64, Machine::kAarch64, Machine::kI386}) {
    for (const MallocLayout& layout : MallocLayout::all_variants(machine)) {
      layouts.push_back(layout);
    }
  }
  return layouts;
}

bool is_acceptable_to_all(const ArenaCheck& check) {
  return is_acceptable(check, DiscoveryStrategy::kDebugSymbol) &&
         is_acceptable(check, DiscoveryStrategy::kRelocation) &&
         is_acceptable(check, DiscoveryStrategy::kDisassembly) &&
         is_acceptable(check, DiscoveryStrategy::kStructuralScan);
}

}  // namespace

TEST_CASE("an arena in use passes on every machine and version") {
  for (const MallocLayout& layout : every_layout()) {
    CAPTURE(layout.version.minor);
    ArenaFixture process(layout);
    process.arena.make_used(process.chunk(0x1000), 0x10000);
    process.arena.put_in_bin(0, process.chunk(0x100));
    process.arena.put_in_bin(70, process.chunk(0x800));
    const ArenaCheck check = process.check();
    CHECK(check.is_used);
    CHECK(check.damage().empty());
    CHECK(check.system_mem == 0x10000);
    CHECK(is_acceptable_to_all(check));
  }
}

TEST_CASE("a layout that is not the arena's own does not fit") {
  for (const int minor : {17, 26, 36, 43}) {
    ArenaFixture process(layout_of(Machine::kX86_64, minor));
    process.arena.make_used(process.chunk(0x1000), 0x10000);
    for (const MallocLayout& other : MallocLayout::all_variants(Machine::kX86_64)) {
      if (other.state == process.arena.layout.state) continue;
      CAPTURE(minor);
      CAPTURE(other.version.minor);
      const ArenaCheck check = check_arena(process.target, other, kArena);
      // 2.17 and 2.23 differ behind next only, so only the counters can tell.
      CHECK_FALSE(is_acceptable(check, DiscoveryStrategy::kStructuralScan));
    }
  }
}

TEST_CASE("an arena that was never used is taken on the word of the file, not of a scan") {
  ArenaFixture process(layout_of(Machine::kX86_64, 36));
  process.arena.put_field(process.arena.layout.state.next, kArena.value());
  process.arena.put_field(process.arena.layout.state.attached_threads, 1);
  const ArenaCheck check = process.check();
  CHECK_FALSE(check.is_used);
  CHECK(is_acceptable(check, DiscoveryStrategy::kDebugSymbol));
  CHECK(is_acceptable(check, DiscoveryStrategy::kRelocation));
  CHECK_FALSE(is_acceptable(check, DiscoveryStrategy::kStructuralScan));
}

TEST_CASE("since 2.42 an arena has bins before anything is allocated") {
  ArenaFixture process(layout_of(Machine::kX86_64, 43));
  process.arena.make_empty();
  const ArenaCheck check = process.check();
  CHECK(check.is_used);
  CHECK(check.system_mem == 0);
  CHECK(is_acceptable_to_all(check));
}

TEST_CASE("some bins may be damaged, many may not") {
  ArenaFixture process(layout_of(Machine::kAarch64, 41));
  process.arena.make_used(process.chunk(0x1000), 0x10000);
  for (unsigned index = 1; index <= kTolerableBadBins; ++index) {
    process.arena.put_bin(index, Address(0x1234), Address(0x1234));
  }
  CHECK(process.check().bad_bins == kTolerableBadBins);
  CHECK(is_acceptable_to_all(process.check()));
  CHECK(process.check().damage().size() == 1);

  process.arena.put_bin(100, process.chunk(0x100), process.chunk(0x100));  // does not link back
  CHECK(process.check().bad_bins == kTolerableBadBins + 1);
  CHECK(is_acceptable(process.check(), DiscoveryStrategy::kDebugSymbol));
  CHECK_FALSE(is_acceptable(process.check(), DiscoveryStrategy::kRelocation));
  CHECK_FALSE(is_acceptable(process.check(), DiscoveryStrategy::kStructuralScan));
}

TEST_CASE("pointers of aarch64 may carry a tag") {
  ArenaFixture process(layout_of(Machine::kAarch64, 36));
  process.arena.make_used(process.chunk(0x1000), 0x10000);
  const uint64_t tag = 0x0bULL << 56;
  process.arena.put_field(process.arena.layout.state.top, process.chunk(0x1000).value() | tag);
  process.arena.put_field(process.arena.layout.state.next, kArena.value() | tag);
  CHECK(process.check().damage().empty());
}

TEST_CASE("a ring of several arenas has to lead back") {
  ArenaFixture process(layout_of(Machine::kX86_64, 36));
  process.target.map("7f100000-7f121000 rw-p 00000000 00:00 0 ");
  const Address second(0x7f100030);
  const uint64_t next = process.arena.layout.state.next;
  process.arena.make_used(process.chunk(0x1000), 0x10000);
  process.arena.put_field(next, second.value());
  process.target.put_word(second + next, kArena.value());
  CHECK(process.check().ring_closes);

  process.target.put_word(second + next, second.value());  // a ring, but not ours
  CHECK_FALSE(process.check().ring_closes);
  CHECK(is_acceptable(process.check(), DiscoveryStrategy::kDebugSymbol));
  CHECK_FALSE(is_acceptable(process.check(), DiscoveryStrategy::kStructuralScan));

  process.target.put_word(second + next, 0);
  CHECK_FALSE(process.check().ring_closes);
  process.target.put_word(second + next, 0xdead0000);
  CHECK_FALSE(process.check().ring_closes);
}

TEST_CASE("a ring that does not close is damage where all else is an arena's") {
  ArenaFixture process(layout_of(Machine::kX86_64, 36));
  const auto& offsets = process.arena.layout.state;
  process.arena.make_used(process.chunk(0x1000), 0x10000);
  for (const uint64_t next : {uint64_t{0}, uint64_t{0xdead0000}, ~uint64_t{0}}) {
    CAPTURE(next);
    process.arena.put_field(offsets.next, next);
    const ArenaCheck check = process.check();
    CHECK(check.damage().size() == 1);
    CHECK(is_acceptable(check, DiscoveryStrategy::kRelocation));
    CHECK(is_acceptable(check, DiscoveryStrategy::kDisassembly));
    CHECK_FALSE(is_acceptable(check, DiscoveryStrategy::kStructuralScan));
  }
  process.arena.put_field(offsets.top, 0x1000);
  CHECK_FALSE(is_acceptable(process.check(), DiscoveryStrategy::kRelocation));
  process.arena.make_used(process.chunk(0x1000), 0x10000);
  process.arena.put_field(offsets.next, 0);
  process.arena.put_field(offsets.system_mem, 8);
  CHECK_FALSE(is_acceptable(process.check(), DiscoveryStrategy::kDisassembly));
}

TEST_CASE("top and counters have to be plausible") {
  ArenaFixture process(layout_of(Machine::kI386, 36));
  const auto& offsets = process.arena.layout.state;
  const auto rejects_scan = [&] {
    const ArenaCheck check = process.check();
    CHECK(is_acceptable(check, DiscoveryStrategy::kRelocation));
    CHECK_FALSE(check.damage().empty());
    return !is_acceptable(check, DiscoveryStrategy::kStructuralScan);
  };
  const Address top = process.chunk(0x1000);
  process.arena.make_used(top, 0x10000);
  CHECK(process.check().damage().empty());

  process.arena.put_field(offsets.top, top.value() + 4);  // misaligned
  CHECK(rejects_scan());
  process.arena.put_field(offsets.top, 0x1000);  // nowhere
  CHECK(rejects_scan());
  process.arena.put_field(offsets.top, top.value());
  process.target.put_word(top + 4, 0xfffffff1);  // longer than its mapping
  CHECK(rejects_scan());
  process.target.put_word(top + 4, 0x20001);  // reaches behind [heap]
  CHECK(rejects_scan());
  process.target.put_word(top + 4, 0x10001);
  process.arena.put_field(offsets.system_mem, 0x8000);  // less than top
  CHECK(rejects_scan());
  process.arena.put_field(offsets.system_mem, 0x20000);  // more than its maximum
  CHECK(rejects_scan());
}

TEST_CASE("what is no memory is no arena") {
  ArenaFixture process(layout_of(Machine::kX86_64, 36));
  const auto& layout = process.arena.layout;
  process.target.map("10000000-10002000 r--p 00000000 fe:01 7 /lib/libc.so.6");
  for (const Address address : {Address(), Address(0x4000), Address(0x10000000), kArena + 1,
                                Address(UINT64_MAX - 7), Address(0x7f20fff8)}) {
    CAPTURE(address.value());
    const ArenaCheck check = check_arena(process.target, layout, address);
    CHECK_FALSE(check.is_readable);
    CHECK_FALSE(is_acceptable(check, DiscoveryStrategy::kDebugSymbol));
  }
  // Zeros are readable, yet nothing.
  CHECK_FALSE(is_acceptable(process.check(), DiscoveryStrategy::kDebugSymbol));
}

TEST_CASE("a scan finds an arena by its shape and tells its layout") {
  for (const MallocLayout& layout : every_layout()) {
    CAPTURE(layout.version.minor);
    ArenaFixture process(layout);
    process.arena.make_used(process.chunk(0x1000), 0x10000);
    process.arena.put_in_bin(0, process.chunk(0x100));
    process.arena.put_in_bin(1, process.chunk(0x200));
    process.arena.put_in_bin(126, process.chunk(0x300));
    const AddressRange data[] = {{kData, kData + 0x10000}};
    const auto variants = MallocLayout::all_variants(layout.machine);
    const auto found = scan_for_arenas(process.target, data, variants);
    REQUIRE(found.size() == 1);
    CHECK(found[0].address == kArena);
    CHECK(found[0].layout.state == layout.state);
    CHECK(found[0].system_mem == 0x10000);
  }
}

TEST_CASE("a scan goes on behind holes and across the borders of its pieces") {
  const auto layout = layout_of(Machine::kX86_64, 36);
  FakeTarget target(Machine::kX86_64);
  target.map("56000000-56021000 rw-p 00000000 00:00 0 [heap]");
  target.map("20000000-20400000 rw-p 00000000 fe:01 9 /opt/app");
  target.make_unreadable({Address(0x20008000), Address(0x20009000)});
  const AddressRange data[] = {{Address(0x20000000), Address(0x20400000)}};
  // In the middle of one, and on the border of two pieces of 1 MiB, counted from behind the hole.
  for (const uint64_t place : {0x20123450ULL, 0x20109000ULL - 1000, 0x20209000ULL - 8}) {
    CAPTURE(place);
    FakeArena{target, layout, Address(place)}.make_used(Address(0x56001000), 0x10000);
  }
  const auto found = scan_for_arenas(target, data, std::vector{layout});
  REQUIRE(found.size() == 3);
  CHECK(found[0].address == Address(0x20109000 - 1000));
  CHECK(found[1].address == Address(0x20123450));
  CHECK(found[2].address == Address(0x20209000 - 8));
}

TEST_CASE("data made to look like bins costs a scan little and gives nothing") {
  FakeTarget target(Machine::kX86_64);
  target.map("20000000-20400000 rw-p 00000000 fe:01 9 /opt/app");
  // Two empty bins, a gap, two empty bins, a gap: a possible first bin again and again.
  for (uint64_t at = 0x20000000; at < 0x20400000 - 48; at += 48) {
    for (const uint64_t bin : {at, at + 16}) {
      target.put_word(Address(bin), bin - 16);
      target.put_word(Address(bin + 8), bin - 16);
    }
    target.put_word(Address(at + 32), at);
    target.put_word(Address(at + 40), at);
  }
  const AddressRange data[] = {{Address(0x20000000), Address(0x20400000)}};
  CHECK(scan_for_arenas(target, data, MallocLayout::all_variants(Machine::kX86_64)).empty());
  CHECK(target.bytes_read() < 128 << 20);
}
