#include "heap/malloc_layout.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "heap/discovery/debug_layout.h"

using namespace heapsnap;

namespace {

// Offsets as `ptype /o` gave them for the distributors' debug files, and for the oldest versions as
// the source has them.
struct StateRow {
  Machine machine;
  int minor;
  uint64_t fastbins, top, bins, next, attached_threads, system_mem, size;
};
constexpr StateRow kStates[] = {
    {Machine::kX86_64, 17, 8, 88, 104, 2152, 0, 2168, 2184},
    {Machine::kX86_64, 23, 8, 88, 104, 2152, 2168, 2176, 2192},
    {Machine::kX86_64, 26, 8, 88, 104, 2152, 2168, 2176, 2192},
    {Machine::kX86_64, 27, 16, 96, 112, 2160, 2176, 2184, 2200},
    {Machine::kAarch64, 31, 16, 96, 112, 2160, 2176, 2184, 2200},
    {Machine::kX86_64, 42, 16, 96, 112, 2160, 2176, 2184, 2200},
    {Machine::kX86_64, 43, 0, 8, 24, 2072, 2088, 2096, 2112},
    {Machine::kAarch64, 44, 0, 8, 24, 2072, 2088, 2096, 2112},
    {Machine::kI386, 23, 8, 48, 56, 1088, 1096, 1100, 1108},
    {Machine::kI386, 31, 12, 56, 64, 1096, 1104, 1108, 1116},
    {Machine::kI386, 43, 0, 8, 16, 1048, 1056, 1060, 1068},
};

struct ParRow {
  Machine machine;
  int minor;
  uint64_t hp_pagesize, n_mmaps, mmapped_mem, sbrk_base, tcache_count, size;
};
constexpr ParRow kPars[] = {
    {Machine::kX86_64, 23, 0, 40, 56, 80, 0, 88},
    {Machine::kX86_64, 25, 0, 40, 56, 72, 0, 80},
    {Machine::kX86_64, 31, 0, 40, 56, 72, 96, 112},
    {Machine::kAarch64, 36, 48, 60, 80, 96, 120, 136},
    {Machine::kX86_64, 42, 48, 60, 80, 96, 120, 136},
    {Machine::kX86_64, 43, 56, 68, 88, 104, 128, 144},
    {Machine::kX86_64, 44, 56, 68, 88, 104, 128, 136},
    {Machine::kI386, 23, 0, 20, 36, 48, 0, 52},
    {Machine::kI386, 31, 0, 20, 36, 44, 56, 64},
    {Machine::kI386, 41, 24, 32, 48, 56, 68, 76},
    {Machine::kI386, 43, 28, 36, 52, 60, 72, 80},
    {Machine::kI386, 44, 28, 36, 52, 60, 72, 76},
};

MallocLayout layout_of(Machine machine, int minor) {
  const auto layout = MallocLayout::for_version(machine, {2, minor});
  REQUIRE(layout);
  return *layout;
}

// What DWARF would say of a layout.
StructLayouts structs_of(const MallocLayout& layout) {
  const uint64_t word = layout.word;
  StructLayouts structs;
  structs["malloc_state"] = {
      layout.state.size,
      {{"fastbinsY", {layout.state.fastbins, layout.state.fastbin_count * word}},
       {"top", {layout.state.top, word}},
       {"bins", {layout.state.bins, 254 * word}},
       {"next", {layout.state.next, word}},
       {"attached_threads", {layout.state.attached_threads, word}},
       {"system_mem", {layout.state.system_mem, word}},
       {"max_system_mem", {layout.state.max_system_mem, word}}}};
  structs["malloc_par"] = {layout.par.size,
                           {{"mmap_threshold", {layout.par.mmap_threshold, word}},
                            {"arena_test", {layout.par.arena_test, word}},
                            {"hp_pagesize", {layout.par.hp_pagesize, word}},
                            {"n_mmaps", {layout.par.n_mmaps, 4}},
                            {"n_mmaps_max", {layout.par.n_mmaps_max, 4}},
                            {"max_n_mmaps", {layout.par.max_n_mmaps, 4}},
                            {"mmapped_mem", {layout.par.mmapped_mem, word}},
                            {"sbrk_base", {layout.par.sbrk_base, word}},
                            {"tcache_count", {layout.par.tcache_count, word}}}};
  structs["tcache_perthread_struct"] = {
      layout.tcache.size,
      {{"counts", {0, layout.tcache.bins * layout.tcache.count_size}},
       {"entries", {layout.tcache.entries, layout.tcache.bins * word}}}};
  return structs;
}

}  // namespace

TEST_CASE("malloc_state of each version and machine") {
  for (const auto& row : kStates) {
    CAPTURE(row.minor);
    const auto state = layout_of(row.machine, row.minor).state;
    CHECK(state.fastbins == row.fastbins);
    CHECK((state.fastbin_count != 0) == (row.minor < 43));
    CHECK(state.top == row.top);
    CHECK(state.bins == row.bins);
    CHECK(state.next == row.next);
    CHECK(state.has_attached_threads == (row.minor >= 23));
    CHECK(state.attached_threads == row.attached_threads);
    CHECK(state.system_mem == row.system_mem);
    CHECK(state.max_system_mem == row.system_mem + word_size(row.machine));
    CHECK(state.size == row.size);
  }
}

TEST_CASE("the fastbins end where top begins") {
  for (const Machine machine : {Machine::kX86_64, Machine::kAarch64, Machine::kI386}) {
    for (int minor = 17; minor < 43; ++minor) {
      CAPTURE(minor);
      const auto layout = layout_of(machine, minor);
      CHECK(layout.state.fastbins + layout.state.fastbin_count * layout.word == layout.state.top);
    }
  }
  CHECK(layout_of(Machine::kI386, 25).state.fastbin_count == 10);
  CHECK(layout_of(Machine::kI386, 26).state.fastbin_count == 11);
}

TEST_CASE("malloc_par of each version and machine") {
  for (const auto& row : kPars) {
    CAPTURE(row.minor);
    const auto par = layout_of(row.machine, row.minor).par;
    CHECK(par.hp_pagesize == row.hp_pagesize);
    CHECK(par.n_mmaps == row.n_mmaps);
    CHECK(par.n_mmaps_max == row.n_mmaps + 4);
    CHECK(par.max_n_mmaps == row.n_mmaps + 8);
    CHECK(par.mmapped_mem == row.mmapped_mem);
    CHECK(par.sbrk_base == row.sbrk_base);
    CHECK(par.tcache_count == row.tcache_count);
    CHECK(par.size == row.size);
  }
}

TEST_CASE("tcache and heap_info of each version") {
  CHECK_FALSE(layout_of(Machine::kX86_64, 25).tcache.exists);
  CHECK(layout_of(Machine::kX86_64, 29).tcache.size == 576);
  CHECK(layout_of(Machine::kX86_64, 29).tcache_chunk_size() == 0x250);
  CHECK(layout_of(Machine::kAarch64, 41).tcache.entries == 128);
  CHECK(layout_of(Machine::kX86_64, 41).tcache_chunk_size() == 0x290);
  CHECK_FALSE(layout_of(Machine::kX86_64, 41).tcache.counts_down);
  CHECK(layout_of(Machine::kX86_64, 42).tcache.entries == 152);
  CHECK(layout_of(Machine::kX86_64, 42).tcache.counts_down);
  CHECK(layout_of(Machine::kX86_64, 42).tcache_chunk_size() == 0x300);
  CHECK(layout_of(Machine::kI386, 29).tcache.size == 320);
  CHECK(layout_of(Machine::kI386, 41).tcache.size == 384);
  CHECK(layout_of(Machine::kI386, 43).tcache.size == 456);

  CHECK(layout_of(Machine::kX86_64, 34).heap_info.total == 32);
  CHECK(layout_of(Machine::kX86_64, 35).heap_info.total == 48);
  CHECK(layout_of(Machine::kI386, 23).heap_info.total == 16);
  CHECK(layout_of(Machine::kI386, 27).heap_info.total == 24);
  CHECK(layout_of(Machine::kI386, 43).heap_info.total == 24);
}

TEST_CASE("what changed without moving a member") {
  CHECK_FALSE(layout_of(Machine::kX86_64, 31).safe_linking);
  CHECK(layout_of(Machine::kX86_64, 32).safe_linking);
  CHECK_FALSE(layout_of(Machine::kX86_64, 42).mmapped_size_less_header);
  CHECK(layout_of(Machine::kX86_64, 43).mmapped_size_less_header);
  CHECK(layout_of(Machine::kI386, 25).malloc_alignment == 8);
  CHECK(layout_of(Machine::kI386, 26).malloc_alignment == 16);
  CHECK(layout_of(Machine::kI386, 41).heap_max_size == 1 << 20);
}

TEST_CASE("the rows of the table have names") {
  CHECK(layout_of(Machine::kX86_64, 17).table_row() == "L1a/P17");
  CHECK(layout_of(Machine::kX86_64, 23).table_row() == "L1b/P17");
  CHECK(layout_of(Machine::kX86_64, 36).table_row() == "L2/P35");
  CHECK(layout_of(Machine::kI386, 44).table_row() == "L3/P44");
}

TEST_CASE("the table ends below and goes on above") {
  CHECK_FALSE(MallocLayout::for_version(Machine::kX86_64, {2, 16}));
  CHECK_FALSE(MallocLayout::for_version(Machine::kX86_64, {}));
  CHECK(layout_of(Machine::kX86_64, 60).state == layout_of(Machine::kX86_64, 44).state);
}

TEST_CASE("all variants are all that versions can have") {
  const auto variants = MallocLayout::all_variants(Machine::kI386);
  for (int minor = 17; minor <= 44; ++minor) {
    CAPTURE(minor);
    const auto layout = layout_of(Machine::kI386, minor);
    const auto same = [&](const MallocLayout& variant) {
      auto renamed = variant;
      renamed.version = layout.version;
      return renamed == layout;
    };
    CHECK(std::count_if(variants.begin(), variants.end(), same) == 1);
  }
}

TEST_CASE("debug information that agrees changes nothing") {
  const auto table = layout_of(Machine::kX86_64, 36);
  const auto result = layout_from_structs(structs_of(table), table);
  REQUIRE(result);
  CHECK(result->layout == table);
  CHECK(result->disagreements.empty());
}

TEST_CASE("debug information wins over the table") {
  const auto table = layout_of(Machine::kX86_64, 36);
  auto structs = structs_of(table);
  structs["malloc_state"].members["top"].offset = 104;
  structs["malloc_par"].members.erase("hp_pagesize");
  const auto result = layout_from_structs(structs, table);
  REQUIRE(result);
  CHECK(result->layout.state.top == 104);
  CHECK(result->layout.par.hp_pagesize == 0);
  REQUIRE(result->disagreements.size() == 2);
  CHECK(result->disagreements[0].find("top of malloc_state at offset 104, the table at 96") !=
        std::string::npos);
}

TEST_CASE("a libc without thread caches has none, whatever the table says") {
  const auto table = layout_of(Machine::kX86_64, 36);
  auto structs = structs_of(table);
  structs["malloc_par"].members.erase("tcache_count");
  structs.erase("tcache_perthread_struct");
  const auto result = layout_from_structs(structs, table);
  REQUIRE(result);
  CHECK_FALSE(result->layout.tcache.exists);
}

TEST_CASE("debug information that tells half or lies is not taken") {
  const auto table = layout_of(Machine::kX86_64, 36);
  auto structs = structs_of(table);
  structs.erase("malloc_par");
  CHECK_FALSE(layout_from_structs(structs, table));

  structs = structs_of(table);
  structs["malloc_state"].members.erase("next");
  CHECK_FALSE(layout_from_structs(structs, table));

  structs = structs_of(table);
  structs["malloc_state"].members["bins"].offset = UINT64_MAX - 8;
  CHECK_FALSE(layout_from_structs(structs, table));

  structs = structs_of(table);
  structs["malloc_state"].size = 1ULL << 40;
  CHECK_FALSE(layout_from_structs(structs, table));
}
