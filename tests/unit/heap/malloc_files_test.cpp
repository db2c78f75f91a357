// What the files of real mallocs give away: this system's libc, and programs that link it in.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "elf/debug_file_search.h"
#include "heap/discovery/allocator_survey.h"
#include "heap/discovery/foreign_allocator.h"
#include "heap/discovery/glibc_version.h"
#include "heap/discovery/malloc_candidates.h"
#include "heap/discovery/malloc_code_range.h"
#include "heap/discovery/malloc_discovery.h"
#include "heap/discovery/malloc_tls.h"
#include "heap/discovery/module_bytes.h"
#include "tests/unit/elf/opened_image.h"
#include "tests/unit/heap/fake_target.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

DebugFileSearch local_debug_files() {
  DebugFileSearch::Options options;
  options.debuginfod_cache = false;
  return DebugFileSearch(options);
}

MallocLayout layout_of(const ElfImage& image) {
  return MallocLayout::for_version(image.machine(), guess_glibc_version(image, LIBC_PATH).version)
      .value();
}

// A process that has mapped only `path`, as the loader would at `bias`.
std::unique_ptr<FakeTarget> process_with(const std::string& path, uint64_t bias,
                                         const std::string& path_in_target) {
  const ElfImage image = open_image(path);
  auto target = std::make_unique<FakeTarget>(image.machine());
  for (const ElfSegment& segment : image.segments()) {
    if (segment.type != 1 /* PT_LOAD */) continue;
    const uint64_t begin = (bias + segment.address) & ~0xfffULL;
    const uint64_t end = (bias + segment.address + segment.memory_size + 0xfff) & ~0xfffULL;
    target->map(fmt::format("{:x}-{:x} {}{}{}p {:08x} fe:01 4711 {}", begin, end,
                            segment.flags & 4 ? 'r' : '-', segment.flags & 2 ? 'w' : '-',
                            segment.flags & 1 ? 'x' : '-', segment.file_offset & ~0xfffULL,
                            path_in_target));
  }
  target->add_file_from(path_in_target, path);
  return target;
}

bool contains(AddressRange outer, AddressRange inner) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

}  // namespace

TEST_CASE("a banner tells the version") {
  CHECK(version_in_banner("GNU C Library (Debian GLIBC 2.36-9+deb12u14) stable release version "
                          "2.36.\nCopyright") == GlibcVersion{2, 36});
  CHECK(version_in_banner("GNU C Library (GNU libc) development release version 2.43.9000.\n") ==
        GlibcVersion{2, 43});
  CHECK(version_in_banner("ld.so (Debian GLIBC 2.36-9) stable release version 2.36.\n") ==
        GlibcVersion{});
  CHECK(version_in_banner("GNU C Library (x)\n release version 2.36") == GlibcVersion{});
  CHECK(version_in_banner("GNU C Library (x) release version 2.99999999999") == GlibcVersion{});
  CHECK(version_in_banner("GNU C Library (x) release version ") == GlibcVersion{});
  CHECK(version_in_banner("GNU C Library (cut") == GlibcVersion{});
  CHECK(version_in_banner("GNU C Library (a, GNU C Library (b) stable release version 2.31.") ==
        GlibcVersion{2, 31});
}

TEST_CASE("the version of this system's libc is known exactly") {
  const auto guess = guess_glibc_version(open_image(LIBC_PATH), LIBC_PATH);
  CHECK(guess.is_exact);
  CHECK(guess.version == GlibcVersion{__GLIBC__, __GLIBC_MINOR__});
}

TEST_CASE("without a banner the file name tells, else symbol versions at least the oldest") {
  const auto by_name = guess_glibc_version(open_image(MALLCTL_LIBRARY), "/lib/libc-2.31.so");
  CHECK(by_name.is_exact);
  CHECK(by_name.version == GlibcVersion{2, 31});
  const auto by_symbols = guess_glibc_version(open_image(MALLCTL_LIBRARY), "/lib/libx.so");
  CHECK_FALSE(by_symbols.is_exact);
}

TEST_CASE("relocations and code of the stripped libc name one main_arena") {
  const ElfImage libc = open_image(LIBC_PATH);
  const auto by_relocation = find_self_pointing_arenas(libc, {layout_of(libc)});
  const auto by_vote = vote_for_arena(libc);
  REQUIRE(by_relocation.size() == 1);
  REQUIRE_FALSE(by_vote.empty());
  CHECK(by_relocation[0] == by_vote[0]);
  const auto pars = find_initial_malloc_pars(libc, {layout_of(libc)});
  REQUIRE(pars.size() == 1);
  CHECK(find_malloc_par_in_mallopt(libc) == pars[0]);
}

TEST_CASE("any version's layout finds main_arena only in libcs that have it") {
  const ElfImage libc = open_image(LIBC_PATH);
  const auto own = layout_of(libc).state;
  for (const MallocLayout& layout : MallocLayout::all_variants(libc.machine())) {
    if (layout.state.next == own.next) continue;
    CAPTURE(layout.version.minor);
    CHECK(find_self_pointing_arenas(libc, {layout}).empty());
  }
  const auto fitting = layouts_that_fit(libc, MallocLayout::all_variants(libc.machine()));
  REQUIRE_FALSE(fitting.empty());
  for (const MallocLayout& layout : fitting) {
    CHECK(layout.state == own);
    CHECK(layout.par == layout_of(libc).par);
  }
}

TEST_CASE("symbols of the separate debug file agree with what the stripped libc gives away") {
  const ElfImage libc = open_image(LIBC_PATH);
  const auto debug_file = local_debug_files().find(libc, LIBC_PATH);
  if (!debug_file) {
    MESSAGE("no debug file of libc is installed (libc6-dbg)");
    return;
  }
  const MallocSymbols symbols = find_malloc_symbols(*debug_file);
  REQUIRE(symbols.main_arena);
  REQUIRE(symbols.malloc_par);
  CHECK(find_self_pointing_arenas(libc, {layout_of(libc)}) == std::vector{*symbols.main_arena});
  CHECK(vote_for_arena(libc).at(0) == *symbols.main_arena);
  CHECK(find_initial_malloc_pars(libc, {layout_of(libc)}) == std::vector{*symbols.malloc_par});
  REQUIRE(libc.tls_segment() != nullptr);
  CHECK(symbols.tcache < libc.tls_segment()->memory_size);
  CHECK(symbols.thread_arena < libc.tls_segment()->memory_size);

  const AddressRange known = find_malloc_text(libc, *debug_file);
  const AddressRange guessed = find_malloc_text(libc, libc);
  CHECK(known.size() > 0x4000);
  CHECK(contains(guessed, known));
  CHECK(guessed.size() <= 0x7000);
}

TEST_CASE("libc's TLS words are many and agree in size") {
  const ElfImage libc = open_image(LIBC_PATH);
  const MallocTls tls = read_malloc_tls(libc, false);
  CHECK(tls.words.size() >= 8);
  CHECK(tls.size == libc.tls_segment()->memory_size);
  CHECK_FALSE(tls.offset);
  for (const auto& word : tls.words) CHECK(word.addend < tls.size);
}

TEST_CASE("static executables give main_arena, mp_ and malloc's code away, stripped too") {
  struct Pair {
    const char* with_symbols;
    const char* stripped;
  };
  for (const Pair& pair : {Pair{STATIC_PROGRAM, STATIC_PROGRAM_STRIPPED},
                           Pair{STATIC_PIE_PROGRAM, STATIC_PIE_PROGRAM_STRIPPED}}) {
    CAPTURE(pair.with_symbols);
    const ElfImage named = open_image(pair.with_symbols);
    const ElfImage bare = open_image(pair.stripped);
    const MallocSymbols symbols = find_malloc_symbols(named);
    REQUIRE(symbols.main_arena);
    REQUIRE_FALSE(find_malloc_symbols(bare).main_arena);
    const auto layouts = layouts_that_fit(bare, MallocLayout::all_variants(bare.machine()));
    CHECK(layouts.size() < MallocLayout::all_variants(bare.machine()).size());
    CHECK(find_self_pointing_arenas(bare, layouts) == std::vector{*symbols.main_arena});
    CHECK(find_initial_malloc_pars(bare, layouts) == std::vector{*symbols.malloc_par});
    const AddressRange known = find_malloc_text(named, named);
    CHECK(known.size() > 0x4000);
    CHECK(contains(find_malloc_text(bare, bare), known));
    const MallocTls tls = read_malloc_tls(bare, true);
    CHECK(tls.offset);
    CHECK(tls.words.empty());
  }
}

TEST_CASE("prepare_discovery knows modules by what they export, not by their names") {
  auto target = process_with(LIBC_PATH, 0x7f0000000000, "/opt/vendor/runtime.bin");
  const auto prepared = prepare_discovery(*target, local_debug_files());
  REQUIRE(prepared.modules.size() == 1);
  const MallocModule& module = prepared.modules[0];
  CHECK(module.path == "/opt/vendor/runtime.bin");
  CHECK(module.load_bias == Address(0x7f0000000000));
  CHECK(module.version == GlibcVersion{__GLIBC__, __GLIBC_MINOR__});
  REQUIRE_FALSE(module.proposals.empty());
  for (const ArenaProposal& proposal : module.proposals) {
    const bool is_in_data =
        std::any_of(module.writable.begin(), module.writable.end(),
                    [&](AddressRange range) { return range.contains(proposal.main_arena); });
    CHECK(is_in_data);
  }
  const Mapping* code = target->address_space().find(module.malloc_text.begin);
  REQUIRE(code != nullptr);
  CHECK(code->executable);
  CHECK(prepared.allocator.kind == AllocatorVerdict::Kind::kGlibc);
  CHECK(prepared.allocator.file == "/opt/vendor/runtime.bin");
}

TEST_CASE("each strategy alone proposes the same main_arena") {
  auto target = process_with(LIBC_PATH, 0x7f0000000000, "/lib/libc.so.6");
  const auto first_proposal = [&](DiscoveryStrategy strategy) {
    const auto prepared = prepare_discovery(*target, local_debug_files(), {{strategy}});
    REQUIRE(prepared.modules.size() == 1);
    const auto& proposals = prepared.modules[0].proposals;
    for (const auto& proposal : proposals) CHECK(proposal.strategy == strategy);
    return proposals.empty() ? Address() : proposals[0].main_arena;
  };
  const Address by_relocation = first_proposal(DiscoveryStrategy::kRelocation);
  CHECK_FALSE(by_relocation.is_null());
  CHECK(first_proposal(DiscoveryStrategy::kDisassembly) == by_relocation);
  CHECK(first_proposal(DiscoveryStrategy::kStructuralScan).is_null());
  const Address by_symbol = first_proposal(DiscoveryStrategy::kDebugSymbol);
  if (!by_symbol.is_null()) CHECK(by_symbol == by_relocation);
}

TEST_CASE("a libc that is loaded twice is two modules") {
  auto target = process_with(LIBC_PATH, 0x7f0000000000, "/lib/libc.so.6");
  const auto mappings = target->address_space().mappings();
  constexpr uint64_t kDistance = 0x10000000;
  for (const Mapping& mapping : mappings) {
    target->map(fmt::format("{:x}-{:x} {}{}{}p {:08x} fe:01 4711 {}",
                            mapping.range.begin.value() + kDistance,
                            mapping.range.end.value() + kDistance, mapping.readable ? 'r' : '-',
                            mapping.writable ? 'w' : '-', mapping.executable ? 'x' : '-',
                            mapping.file_offset, mapping.path));
  }
  const auto prepared =
      prepare_discovery(*target, local_debug_files(), {{DiscoveryStrategy::kRelocation}});
  REQUIRE(prepared.modules.size() == 2);
  const auto& first = prepared.modules[0];
  const auto& second = prepared.modules[1];
  CHECK(second.load_bias == first.load_bias + kDistance);
  CHECK(second.proposals.at(0).main_arena == first.proposals.at(0).main_arena + kDistance);
  CHECK(second.malloc_pars.at(0) == first.malloc_pars.at(0) + kDistance);
  CHECK(second.malloc_text.begin == first.malloc_text.begin + kDistance);
  CHECK(second.tls.words.at(0).word == first.tls.words.at(0).word + kDistance);
}

TEST_CASE("files that cannot be opened, or are no ELF files of this machine, are left out") {
  auto target = process_with(LIBC_PATH, 0x7f0000000000, "/lib/libc.so.6");
  target->add_file("/lib/libc.so.6", {std::byte{'#'}, std::byte{'!'}});
  CHECK(prepare_discovery(*target, local_debug_files()).modules.empty());
  target->add_file("/lib/libc.so.6", {});
  CHECK(prepare_discovery(*target, local_debug_files()).modules.empty());
  target->add_file_from("/lib/libc.so.6", LIBC_PATH);
  target->editable_process().machine = Machine::kI386;
  CHECK(prepare_discovery(*target, local_debug_files()).modules.empty());
  FakeTarget without_file(Machine::kX86_64);
  without_file.map("7f200000-7f202000 r-xp 00000000 fe:01 7 /lib/libc.so.6");
  CHECK(prepare_discovery(without_file, local_debug_files()).modules.empty());
}

TEST_CASE("a damaged libc harms nobody") {
  const MappedFile libc = MappedFile::open(LIBC_PATH);
  const std::vector<std::byte> sound(libc.bytes().begin(), libc.bytes().end());
  const auto read_all = [](const std::vector<std::byte>& bytes) {
    try {
      const ElfImage image = ElfImage::from_bytes(bytes, "damaged");
      const auto variants = MallocLayout::all_variants(image.machine());
      for (const uint64_t arena : find_self_pointing_arenas(image, variants)) {
        CHECK(is_writable(image, arena, 2000));
      }
      for (const uint64_t variable : vote_for_arena(image)) CHECK(is_writable(image, variable, 1));
      find_initial_malloc_pars(image, variants);
      find_malloc_par_in_mallopt(image);
      find_malloc_text(image, image);
      read_malloc_tls(image, true);
      read_malloc_tls(image, false);
      guess_glibc_version(image, "damaged");
      foreign_allocator_in(image, "damaged");
    } catch (const Error&) {
      // No ELF file any more.
    }
  };
  for (size_t size = 64; size < sound.size(); size = size * 3 + 17) {
    read_all({sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(size)});
  }
  // The headers, and every word of the program headers, set to what overflows most easily.
  for (size_t at = 16; at + 8 <= 64 + 56 * 12; at += 8) {
    auto damaged = sound;
    std::memset(damaged.data() + at, 0xff, 7);
    read_all(damaged);
  }
}

TEST_CASE("who answers malloc is told once, for all commands") {
  using Kind = AllocatorVerdict::Kind;
  const ElfImage libc = open_image(LIBC_PATH);
  AllocatorSurvey survey;
  CHECK(survey.verdict().kind == Kind::kUnknown);
  survey.add(libc, "/lib/libc.so.6", true);
  AllocatorVerdict verdict = survey.verdict();
  CHECK(verdict.kind == Kind::kGlibc);
  CHECK(verdict.file == "/lib/libc.so.6");
  CHECK(verdict.file_deleted);
  survey.add(open_image(MALLCTL_LIBRARY), "/opt/libx.so");
  survey.add(open_image(MALLCTL_LIBRARY), "/opt/liby.so");
  verdict = survey.verdict();
  CHECK(verdict.kind == Kind::kGlibc);
  CHECK(verdict.beside == std::vector<std::string>{"jemalloc"});
  CHECK(verdict.interposer.empty());
}

TEST_CASE("foreign allocators are known by file name and by symbols that are defined") {
  const ElfImage libc = open_image(LIBC_PATH);
  CHECK(foreign_allocator_in(libc, "/lib/x86_64-linux-gnu/libc.so.6").empty());
  CHECK(foreign_allocator_in(libc, "/lib/ld-musl-x86_64.so.1") == "musl");
  CHECK(foreign_allocator_in(libc, "/usr/lib/libjemalloc.so.2") == "jemalloc");
  CHECK(foreign_allocator_in(libc, "/usr/lib/libtcmalloc_minimal.so.4") == "tcmalloc");
  CHECK(foreign_allocator_in(libc, "/usr/lib/libmimalloc.so.2.0") == "mimalloc");
  CHECK(foreign_allocator_in(open_image(MALLCTL_LIBRARY), "/opt/libx.so") == "jemalloc");
  CHECK(foreign_allocator_in(open_image(MALLCTL_USER_LIBRARY), "/opt/liby.so").empty());

  auto target = process_with(MALLCTL_LIBRARY, 0x7f0000000000, "/opt/libx.so");
  const auto prepared = prepare_discovery(*target, local_debug_files());
  // It does not export malloc: a part of the program calls it by its own name.
  CHECK(prepared.allocator.kind == AllocatorVerdict::Kind::kUnknown);
  CHECK(prepared.allocator.beside == std::vector<std::string>{"jemalloc"});
  CHECK(prepared.modules.empty());
}
