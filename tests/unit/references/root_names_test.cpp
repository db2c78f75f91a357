#include "references/root_names.h"

#include <doctest/doctest.h>

#include "fake_module.h"
#include "fake_pthreads.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

constexpr Address kShop{0x7f0000300000};

// The names of `words`, of a target whose frames are `stacks`.
struct NameFixture {
  FakeTarget target{Machine::kX86_64};
  FakeModule module;
  std::vector<ThreadFrames> stacks;
  RootRegions roots;

  RootWord word(Address address) const {
    for (uint32_t i = 0; i < roots.regions.size(); ++i) {
      if (roots.regions[i].range.contains(address)) return {address, i};
    }
    FAIL("no region holds " << address.value());
    return {};
  }
  NamedRoots name(const std::vector<Address>& addresses,
                  const std::vector<RegisterWord>& registers = {}) {
    const LoadedModules modules(target);
    roots = find_root_regions(target, modules, HeapModel(), {});
    std::vector<RootWord> words;
    for (const Address address : addresses) words.push_back(word(address));
    const NamedRoots named =
        name_roots({roots, modules, stacks, target.address_space(), Machine::kX86_64}, words,
                   registers, DebugFileSearch());
    REQUIRE(named.place_of.size() == words.size() + registers.size());
    return named;
  }
};

}  // namespace

TEST_CASE("variables by symbol, others by section or segment") {
  NameFixture fixture;
  fixture.module.symbols = {{"_ZN4shop8sessionsE", 0x2000, 0x18}, {"table", 0x3100, 0x100}};
  fixture.module.load(fixture.target, kShop, "/bin/shop");
  const NamedRoots named = fixture.name({kShop + 0x2008, kShop + 0x2010, kShop + 0x2018,
                                         kShop + 0x3180, kShop + 0x3200, kShop + 0x1008});
  const auto place = [&](size_t i) { return named.places[named.place_of[i]]; };
  CHECK(named.places.size() == 5);
  CHECK(named.place_of[0] == named.place_of[1]);
  CHECK(place(0) == RootPlace{RootKind::kVariable, 0, "/bin/shop", "shop::sessions", kShop + 0x2000,
                              0x18, 0x2000});
  // Begins where the variable does, and is another place.
  CHECK(place(2) ==
        RootPlace{RootKind::kVariable, 0, "/bin/shop", "", kShop + 0x2000, 0x1000, 0x2000});
  CHECK(place(3) ==
        RootPlace{RootKind::kVariable, 0, "/bin/shop", "table", kShop + 0x3100, 0x100, 0x3100});
  CHECK(place(4) ==
        RootPlace{RootKind::kVariable, 0, "/bin/shop", "", kShop + 0x3000, 0x1000, 0x3000});
  // In no section: the segment.
  CHECK(place(5) ==
        RootPlace{RootKind::kVariable, 0, "/bin/shop", "", kShop + 0x1000, 0x3000, 0x1000});
}

TEST_CASE("mappings by their names, registers by theirs") {
  NameFixture fixture;
  fixture.target.map("10000-12000 rw-p 00000000 00:00 0");
  fixture.target.map("20000-22000 rw-s 00000000 00:01 5 /dev/shm/pool");
  const NamedRoots named =
      fixture.name({Address(0x10008), Address(0x11008), Address(0x20010)},
                   {{7, 0, 1}, {7, RegisterWord::kThreadPointer, 2}, {8, 0, 1}});
  REQUIRE(named.places.size() == 5);
  CHECK(named.place_of == std::vector<uint32_t>{0, 0, 1, 2, 3, 4});
  CHECK(named.places[0] == RootPlace{RootKind::kMapping, 0, "", "", Address(0x10000), 0x2000, 0});
  CHECK(named.places[1] ==
        RootPlace{RootKind::kMapping, 0, "", "/dev/shm/pool", Address(0x20000), 0x2000, 0});
  CHECK(named.places[2] == RootPlace{RootKind::kRegister, 7, "", "rax", Address(), 0, 0});
  CHECK(named.places[3] == RootPlace{RootKind::kRegister, 7, "", "fs_base", Address(), 0, 0});
  CHECK(named.places[4] == RootPlace{RootKind::kRegister, 8, "", "rax", Address(), 0, 0});
}

TEST_CASE("words on stacks by their frames") {
  NameFixture fixture;
  fixture.module.symbols = {{"_Z5innerv", 0x100, 0x40, STT_FUNC}, {"main", 0x200, 0x80, STT_FUNC}};
  fixture.module.load(fixture.target, kShop, "/bin/shop");
  fixture.target.map("7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]");
  fixture.target.map("10000-20000 rw-p 00000000 00:00 0");
  FakePthreads(fixture.target).run(9, Address(), Address(0x7ffc00010000));
  // From a signal stack in a mapping of its own back to the stack.
  fixture.stacks = {{9,
                     {{Address(0x7ffc00010000), kShop + 0x110},
                      {Address(0x7ffc00010040), kShop + 0x210},
                      {Address(0x18000), kShop + 0x110},
                      {Address(0x7ffc00010100), Address(0x1)}}}};
  const NamedRoots named = fixture.name(
      {Address(0x7ffc00010000 - 128), Address(0x7ffc00010038), Address(0x7ffc00010040),
       Address(0x18010), Address(0x7ffc00010100), Address(0x7ffc00020000), Address(0x17000)});
  const auto place = [&](size_t i) { return named.places[named.place_of[i]]; };
  CHECK(named.place_of[0] == named.place_of[1]);
  CHECK(place(0) == RootPlace{RootKind::kStack, 9, "/bin/shop", "inner()",
                              Address(0x7ffc00010000 - 128), 0x40 + 128, place(3).module_offset});
  // Where the function begins: before the code that runs.
  CHECK(place(0).module_offset > 0);
  CHECK(place(0).module_offset <= 0x110);
  CHECK(place(2).module_offset > 0x110);
  CHECK(place(2).module_offset <= 0x210);
  CHECK(place(2).name == "main");
  CHECK(place(3).kind == RootKind::kStack);
  CHECK(place(3).name == "inner()");
  // Of code that is in no module, and of no frame at all.
  CHECK(place(4).name == "");
  CHECK(place(4).begin == Address(0x7ffc00010100));
  CHECK(place(5).kind == RootKind::kStack);
  CHECK(place(5).tid == 9);
  CHECK(place(5).name == "");
  CHECK(place(6).kind == RootKind::kMapping);
}

TEST_CASE("what of a thread is of no module's block") {
  NameFixture fixture;
  FakePthreads threads(fixture.target);
  fixture.target.map("7f0000000000-7f0000010000 rw-p 00000000 00:00 0");
  const Address block = threads.add({Address(0x7f0000000000), Address(0x7f0000010000)}, 12);
  threads.run(12, block, Address(0x7f0000008000));
  const NamedRoots named = fixture.name({block + 0x310});
  REQUIRE(named.places.size() == 1);
  CHECK(named.places[0] ==
        RootPlace{RootKind::kThreadLocal, 12, "", "struct pthread", block, 0x900, 0});
}
