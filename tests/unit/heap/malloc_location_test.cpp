// From proposals to mallocs, in memory made for each machine and version.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "heap/discovery/malloc_discovery.h"
#include "tests/unit/heap/fake_arena.h"

using namespace heapsnap;

namespace {

constexpr Address kConstants(0x7f1c0000);
constexpr Address kData(0x7f200000);
constexpr Address kArena = kData + 0x460;
constexpr Address kPar = kData + 0x140;
constexpr Address kTlsWord = kData + 0x1800;
constexpr Address kThreadPointer(0x7e001000);
constexpr int kTlsOffset = -0x90;

MallocLayout layout_of(Machine machine, int minor) {
  return MallocLayout::for_version(machine, {2, minor}).value();
}

// A process whose main thread allocated a little.
struct LocationFixture {
  FakeTarget target;
  MallocLayout layout;
  Address heap;
  Address tcache;

  explicit LocationFixture(const MallocLayout& of) : target(of.machine), layout(of) {
    target.map("56000000-56021000 rw-p 00000000 00:00 0 [heap]");
    target.map("7e000000-7e002000 rw-p 00000000 00:00 0 ");
    target.map("7f1c0000-7f1c1000 r--p 001a0000 fe:01 7 /lib/libc.so.6");
    target.map("7f200000-7f201000 rw-p 001d0000 fe:01 7 /lib/libc.so.6");
    target.map("7f201000-7f204000 rw-p 00000000 00:00 0 ");
    // Chunks of i386 since 2.26 lie at 8 mod 16.
    heap = Address(0x56000000 + (layout.word == 4 && layout.malloc_alignment == 16 ? 8 : 0));
    tcache = heap + 2 * layout.word;
    if (layout.tcache.exists) {
      target.put_word(heap + layout.word, layout.tcache_chunk_size() | 1);
    }
    FakeArena{target, layout, kArena}.make_used(heap + 0x1000, 0x1f000);
    put_par(kPar);
    target.put_word(kTlsWord, static_cast<uint64_t>(int64_t{kTlsOffset + 0x48}));
    put_tls(0x48, tcache);
    put_tls(0x58, kArena);
    target.add_thread(77, kThreadPointer);
  }
  void put_par(Address par) {
    for (const uint64_t threshold :
         {uint64_t{0}, uint64_t{layout.word}, layout.par.mmap_threshold}) {
      target.put_word(par + threshold, 128 << 10);
    }
    target.put_word(par + layout.par.arena_test, layout.word == 4 ? 2 : 8);
    target.put<uint32_t>(par + layout.par.n_mmaps, 2);
    target.put<uint32_t>(par + layout.par.n_mmaps_max, 65536);
    target.put<uint32_t>(par + layout.par.max_n_mmaps, 3);
    target.put_word(par + layout.par.mmapped_mem, 0x5000);
    target.put_word(par + layout.par.sbrk_base, 0x56000000);
    if (layout.tcache.exists) target.put_word(par + layout.par.tcache_count, 7);
  }
  void put_tls(uint64_t place, Address value) {
    target.put_word(kThreadPointer - 0x90 + place, value.value());
  }
  void put_banner(const char* banner) {
    target.put_bytes(kConstants + 0x123, std::as_bytes(std::span(banner, std::strlen(banner))));
  }

  MallocModule module() const {
    MallocModule module;
    module.path = "/lib/libc.so.6";
    module.version = layout.version;
    module.layouts = {layout};
    module.layout_source = "table " + layout.table_row();
    module.malloc_pars = {kPar};
    module.writable = {{kData, kData + 0x4000}};
    module.tls.words = {{kTlsWord, 0x48}};
    module.tls.size = 0x90;
    return module;
  }
  std::vector<LocatedMalloc> locate(MallocModule module) {
    PreparedDiscovery prepared;
    prepared.modules = {std::move(module)};
    return locate_mallocs(target, prepared);
  }
};

std::vector<MallocLayout> every_layout() {
  std::vector<MallocLayout> layouts;
  for (const Machine machine : {Machine::kX86_64, Machine::kAarch64, Machine::kI386}) {
    for (const MallocLayout& layout : MallocLayout::all_variants(machine)) {
      layouts.push_back(layout);
    }
  }
  return layouts;
}

bool mentions(const MallocInstance& instance, const std::string& text) {
  return std::any_of(instance.notes.begin(), instance.notes.end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE("a proposal that holds becomes an instance with its counters, on every machine") {
  for (const MallocLayout& layout : every_layout()) {
    CAPTURE(layout.version.minor);
    LocationFixture process(layout);
    auto module = process.module();
    module.proposals = {{DiscoveryStrategy::kRelocation, kArena}};
    module.build_id = "abcd";
    const auto found = process.locate(module);
    REQUIRE(found.size() == 1);
    const MallocInstance& instance = found[0].instance;
    CHECK(instance.module == "/lib/libc.so.6");
    CHECK(instance.build_id == "abcd");
    CHECK(instance.version == layout.version);
    CHECK(instance.strategy == DiscoveryStrategy::kRelocation);
    CHECK(instance.layout_source == "table " + layout.table_row());
    CHECK(instance.main_arena == kArena);
    CHECK(instance.malloc_par == kPar);
    CHECK(instance.n_mmaps == 2);
    CHECK(instance.mmapped_mem == 0x5000);
    CHECK(instance.tcache_count == (layout.tcache.exists ? 7 : 0));
    CHECK(instance.notes.empty());
    CHECK(found[0].layout == layout);
    CHECK(found[0].tls_offset == kTlsOffset);
    CHECK(found[0].tls_size == 0x90);
  }
}

TEST_CASE("the first proposal that memory confirms wins") {
  LocationFixture process(layout_of(Machine::kX86_64, 36));
  auto module = process.module();
  module.proposals = {{DiscoveryStrategy::kDebugSymbol, kData + 0x20},  // of another build
                      {DiscoveryStrategy::kRelocation, kArena + 16},
                      {DiscoveryStrategy::kDisassembly, kArena}};
  module.malloc_pars = {kData + 0x2000, kPar};  // zeros first
  const auto found = process.locate(module);
  REQUIRE(found.size() == 1);
  CHECK(found[0].instance.strategy == DiscoveryStrategy::kDisassembly);
  CHECK(found[0].instance.main_arena == kArena);
  CHECK(found[0].instance.malloc_par == kPar);
}

TEST_CASE("without a good proposal the data is scanned, for mp_ too") {
  for (const MallocLayout& layout : every_layout()) {
    CAPTURE(layout.version.minor);
    LocationFixture process(layout);
    auto module = process.module();
    module.proposals = {{DiscoveryStrategy::kDisassembly, kData + 0x20}};
    module.malloc_pars = {};
    const auto found = process.locate(module);
    REQUIRE(found.size() == 1);
    CHECK(found[0].instance.strategy == DiscoveryStrategy::kStructuralScan);
    CHECK(found[0].instance.main_arena == kArena);
    CHECK(found[0].instance.malloc_par == kPar);
    CHECK(found[0].layout == layout);
  }
}

TEST_CASE("no scan where it is not allowed") {
  LocationFixture process(layout_of(Machine::kX86_64, 36));
  PreparedDiscovery prepared;
  prepared.modules = {process.module()};
  prepared.may_scan = false;
  CHECK(locate_mallocs(process.target, prepared).empty());
}

TEST_CASE("a malloc whose file nobody could read is found, with the version from memory") {
  for (const int minor : {23, 31, 36, 43}) {
    CAPTURE(minor);
    LocationFixture process(layout_of(Machine::kAarch64, minor));
    const std::string banner =
        "GNU C Library (Debian GLIBC) stable release version 2." + std::to_string(minor) + ".\n";
    process.put_banner(banner.c_str());
    const auto found = locate_mallocs(process.target, PreparedDiscovery{});
    REQUIRE(found.size() == 1);
    CHECK(found[0].instance.module == "/lib/libc.so.6");
    CHECK(found[0].instance.version == GlibcVersion{2, minor});
    CHECK(found[0].instance.main_arena == kArena);
    CHECK(found[0].instance.malloc_par == kPar);
    CHECK(found[0].layout == process.layout);
    CHECK_FALSE(found[0].tls_offset);
  }
}

TEST_CASE("a layout that the version should not have is taken when memory says so, and noted") {
  LocationFixture process(layout_of(Machine::kX86_64, 43));
  auto module = process.module();
  module.version = {2, 36};
  module.layouts = {layout_of(Machine::kX86_64, 36)};
  module.layout_source = "table L2/P35";
  module.proposals = {{DiscoveryStrategy::kDisassembly, kArena}};
  const auto found = process.locate(module);
  REQUIRE(found.size() == 1);
  CHECK(found[0].layout.state == process.layout.state);
  CHECK(found[0].layout.par.n_mmaps == process.layout.par.n_mmaps);
  CHECK(mentions(found[0].instance, "not table L2/P35 as glibc 2.36 should"));
}

TEST_CASE("where the version is unknown the thread's cache decides between layouts") {
  for (const int minor : {35, 42}) {
    CAPTURE(minor);
    LocationFixture process(layout_of(Machine::kX86_64, minor));
    auto module = process.module();
    module.version = {};
    module.layouts = {layout_of(Machine::kX86_64, 42), layout_of(Machine::kX86_64, 35)};
    module.proposals = {{DiscoveryStrategy::kRelocation, kArena}};
    CHECK(process.locate(module).at(0).layout == process.layout);

    // Without registers, the first chunk of the heap.
    process.target.editable_threads()[0].registers.reset();
    CHECK(process.locate(module).at(0).layout == process.layout);
  }
}

TEST_CASE("an arena that was never used is an instance, and comes last") {
  LocationFixture process(layout_of(Machine::kX86_64, 36));
  const Address unused = kData + 0x2000;
  process.target.put_word(unused + process.layout.state.next, unused.value());
  auto used = process.module();
  used.path = "/lib/libc_malloc_debug.so.0";
  used.proposals = {{DiscoveryStrategy::kRelocation, kArena}};
  auto idle = process.module();
  idle.proposals = {{DiscoveryStrategy::kRelocation, unused}};
  idle.malloc_pars = {};
  idle.writable = {};
  PreparedDiscovery prepared;
  prepared.modules = {idle, used};
  const auto found = locate_mallocs(process.target, prepared);
  REQUIRE(found.size() == 2);
  CHECK(found[0].instance.main_arena == kArena);
  CHECK(found[1].instance.main_arena == unused);
  CHECK(found[1].instance.malloc_par.is_null());
  CHECK(mentions(found[1].instance, "mp_ was not found"));
}

TEST_CASE("damage that a symbol outweighs is told") {
  LocationFixture process(layout_of(Machine::kX86_64, 36));
  process.target.put_word(kArena + process.layout.state.top, 0x4141414141414140);
  auto module = process.module();
  module.proposals = {{DiscoveryStrategy::kDebugSymbol, kArena}};
  const auto found = process.locate(module);
  REQUIRE(found.size() == 1);
  CHECK(found[0].instance.main_arena == kArena);
  CHECK(mentions(found[0].instance, "top of main_arena"));
}

TEST_CASE("a process without any malloc gives none") {
  FakeTarget target(Machine::kX86_64);
  CHECK(locate_mallocs(target, PreparedDiscovery{}).empty());
  target.map("7f200000-7f204000 rw-p 001d0000 fe:01 7 /lib/libc.so.6");
  CHECK(locate_mallocs(target, PreparedDiscovery{}).empty());
}

TEST_CASE("an arena that changes while it is checked is checked again") {
  LocationFixture fixture(layout_of(Machine::kX86_64, 31));
  const FakeArena arena{fixture.target, fixture.layout, kArena};
  const uint64_t next =
      fixture.target.memory().read_value<uint64_t>(kArena + fixture.layout.state.next).value();
  MallocModule module = fixture.module();
  module.proposals = {{DiscoveryStrategy::kRelocation, kArena}};
  PreparedDiscovery prepared;
  prepared.modules = {module};
  prepared.may_scan = false;
  // A few reads see it without its ring and with a top that is none.
  fixture.target.on_read([&](uint64_t reads) {
    const bool is_changing = reads < 40;
    arena.put_field(fixture.layout.state.next, is_changing ? 0 : next);
    arena.put_field(fixture.layout.state.top, is_changing ? 0x10 : (fixture.heap + 0x1000).value());
  });
  CHECK(locate_mallocs(fixture.target, prepared).empty());
  prepared.most_looks = PreparedDiscovery::kLooksAtRunning;
  CHECK_EQ(locate_mallocs(fixture.target, prepared).size(), 1);
}
