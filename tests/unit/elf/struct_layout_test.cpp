#include "elf/struct_layout.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "elf/debug_file_search.h"
#include "elf/dwarf_copy.h"
#include "elf_builder.h"
#include "layout_fixture.h"
#include "opened_image.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

const std::vector<std::string> kNames = {"fixture_plain", "fixture_nested", "fixture_alias",
                                         "fixture_declared_only", "fixture_unheard_of"};

void check_member(const StructLayout& layout, const std::string& name, uint64_t offset,
                  uint64_t size) {
  CAPTURE(name);
  const auto member = layout.members.find(name);
  REQUIRE(member != layout.members.end());
  CHECK(member->second.offset == offset);
  CHECK(member->second.size == size);
}

}  // namespace

TEST_CASE("layouts are those of the compiler, also from compressed sections and old DWARF") {
  for (const char* path : {LAYOUT_FIXTURE_PLAIN, LAYOUT_FIXTURE_COMPRESSED,
                           LAYOUT_FIXTURE_DWARF4_TYPES, LAYOUT_FIXTURE_DWARF5_TYPES}) {
    CAPTURE(path);
    const auto layouts = read_struct_layouts(open_image(path), kNames);
    CHECK(layouts.size() == 3);
    REQUIRE(layouts.count("fixture_plain") == 1);
    const StructLayout& plain = layouts.at("fixture_plain");
    CHECK(plain.size == sizeof(fixture_plain));
    CHECK(plain.members.size() == 6);
    check_member(plain, "letter", 0, 1);
    check_member(plain, "number", offsetof(fixture_plain, number), sizeof(int));
    check_member(plain, "next", offsetof(fixture_plain, next), sizeof(void*));
    check_member(plain, "matrix", offsetof(fixture_plain, matrix), 12 * sizeof(long));
    check_member(plain, "pointers", offsetof(fixture_plain, pointers), 5 * sizeof(void*));
    check_member(plain, "flexible", offsetof(fixture_plain, flexible), 0);

    REQUIRE(layouts.count("fixture_nested") == 1);
    const StructLayout& nested = layouts.at("fixture_nested");
    CHECK(nested.size == sizeof(fixture_nested));
    check_member(nested, "inner", offsetof(fixture_nested, inner), sizeof(int));
    check_member(nested, "as_long", offsetof(fixture_nested, as_long), sizeof(long));
    check_member(nested, "as_bytes", offsetof(fixture_nested, as_bytes), 16);
    check_member(nested, "named", offsetof(fixture_nested, named), sizeof(void*));

    REQUIRE(layouts.count("fixture_alias") == 1);
    CHECK(layouts.at("fixture_alias").size == sizeof(fixture_alias));
    check_member(layouts.at("fixture_alias"), "text", offsetof(fixture_alias, text), 7);
  }
}

TEST_CASE("a struct whose nameless members lead back to it, twice on each level, is none") {
  CHECK(read_struct_layouts(open_image(LAYOUT_OF_CIRCLES), {"malloc_state"}).empty());
}

TEST_CASE("the unit of some code is looked at first, and the others for what it lacks") {
  const std::vector<std::string> names = {"fixture_plain", "fixture_nested", "fixture_alias"};
  for (const char* path : {LAYOUT_FIXTURE_TWO_UNITS, LAYOUT_FIXTURE_TWO_UNITS_COMPRESSED}) {
    CAPTURE(path);
    const auto image = open_image(path);
    const uint64_t code = image.find_symbol("fixture_code")->value;
    const uint64_t first_code = image.find_symbol("fixture_first_code")->value;

    const auto own = read_struct_layouts(image, names, code);
    CHECK(own == read_struct_layouts(open_image(LAYOUT_FIXTURE_PLAIN), names));
    const auto whole = read_struct_layouts(image, names);
    CHECK(whole.at("fixture_plain").size == 1);
    CHECK(whole.at("fixture_nested") == own.at("fixture_nested"));
    CHECK(read_struct_layouts(image, {"fixture_plain"}, first_code) ==
          read_struct_layouts(image, {"fixture_plain"}));
    CHECK(read_struct_layouts(image, names, first_code) == whole);
    CHECK(read_struct_layouts(image, names, 1) == whole);
    // Types of which the unit has only the signature.
    const auto signatures = open_image(LAYOUT_FIXTURE_DWARF5_TYPES);
    CHECK(read_struct_layouts(signatures, names, signatures.find_symbol("fixture_code")->value) ==
          own);
  }
}

TEST_CASE("a copy for libdw is of the sections that were asked for") {
  const auto image = open_image(LAYOUT_FIXTURE_TWO_UNITS_COMPRESSED);
  REQUIRE((image.section(".debug_info")->flags & SHF_COMPRESSED) != 0);
  constexpr std::string_view kWanted[] = {"info", "abbrev"};
  const uint64_t code = image.find_symbol("fixture_code")->value;
  for (const bool is_unit : {false, true}) {
    CAPTURE(is_unit);
    const DwarfCopy copy =
        is_unit ? copy_unit_for_dwarf(image, kWanted, code) : copy_for_dwarf(image, kWanted);
    REQUIRE(copy.bytes != nullptr);
    const auto bytes = std::span<const std::byte>(copy.bytes.get(), copy.size);
    const ElfImage copied = ElfImage::from_bytes(bytes, "copy");
    REQUIRE(copied.sections().size() == image.sections().size());
    CHECK(copied.section(".debug_line")->type == SHT_NOBITS);
    CHECK(copied.section(".debug_str")->type == SHT_NOBITS);
    CHECK(copied.section(".debug_abbrev")->type == SHT_PROGBITS);
    const ElfSection& info = *copied.section(".debug_info");
    CHECK(info.type == SHT_PROGBITS);
    CHECK(((info.flags & SHF_COMPRESSED) == 0) == is_unit);
  }
  CHECK(copy_unit_for_dwarf(image, kWanted, 1).bytes == nullptr);
}

TEST_CASE("a file without DWARF has no layouts") {
  const Bytes bytes = ElfBuilder(Machine::kX86_64, ET_DYN).finish();
  CHECK(read_struct_layouts(ElfImage::from_bytes(bytes, "bare"), kNames).empty());
}

TEST_CASE("damaged DWARF is not found, and harms nobody") {
  const auto image = open_image(LAYOUT_FIXTURE_TWO_UNITS);
  const Bytes whole(image.file_bytes().begin(), image.file_bytes().end());
  size_t damaged_files = 0;
  size_t incomplete = 0;
  const auto code = image.find_symbol("fixture_code")->value;
  for (const char* name : {".debug_info", ".debug_abbrev", ".debug_aranges"}) {
    const ElfSection* section = image.section(name);
    REQUIRE(section != nullptr);
    for (uint64_t i = 0; i < section->size; ++i) {
      for (const unsigned value : {0x00U, 0x01U, 0xffU}) {
        Bytes damaged = whole;
        damaged[section->file_offset + i] = static_cast<std::byte>(value);
        const auto layouts =
            read_struct_layouts(ElfImage::from_bytes(damaged, "damaged"), kNames, code);
        ++damaged_files;
        if (layouts.size() < 3) ++incomplete;
        CHECK(layouts.size() <= kNames.size());
      }
    }
  }
  CHECK(incomplete > 0);
  CHECK(incomplete < damaged_files);
}

TEST_CASE("nothing is read of debug information with a string that nothing ends") {
  const auto image = open_image(LAYOUT_FIXTURE_TWO_UNITS);
  Bytes bytes(image.file_bytes().begin(), image.file_bytes().end());
  CHECK(read_struct_layouts(ElfImage::from_bytes(bytes, "whole"), kNames).size() == 3);
  const ElfSection* strings = image.section(".debug_str");
  REQUIRE(strings != nullptr);
  bytes[strings->file_offset + strings->size - 1] = std::byte{'x'};
  CHECK(read_struct_layouts(ElfImage::from_bytes(bytes, "damaged"), kNames).empty());
}

TEST_CASE("glibc's own structs, where its debug file is installed") {
  const std::string libc = LIBC_PATH;
  std::optional<ElfImage> debug;
  try {
    debug = DebugFileSearch().find(open_image(libc), libc);
  } catch (const Error&) {
  }
  if (!debug) {
    MESSAGE("skipped: no debug file of " << libc << " on this machine (package libc6-dbg)");
    return;
  }
  const auto layouts = read_struct_layouts(
      *debug, {"malloc_state", "malloc_par", "_heap_info", "tcache_perthread_struct"});
  CHECK(layouts.size() == 4);
  REQUIRE(layouts.count("malloc_state") == 1);
  const StructLayout& arena = layouts.at("malloc_state");
  CHECK(read_struct_layouts(*debug,
                            {"malloc_state", "malloc_par", "_heap_info", "tcache_perthread_struct"},
                            debug->find_symbol("__libc_malloc")->value) == layouts);
  // True of every glibc from 2.23 on, whatever its version.
  const uint64_t word = word_size(debug->machine());
  const uint64_t bins = arena.members.at("bins").offset;
  CHECK(arena.members.at("top").offset == bins - 2 * word);
  CHECK(arena.members.at("bins").size == 254 * word);
  CHECK(arena.members.at("binmap").offset == bins + 254 * word);
  CHECK(arena.members.at("next").offset == bins + 254 * word + 16);
  // The variable is as large as its type.
  REQUIRE(debug->find_symbol("main_arena") != nullptr);
  CHECK(debug->find_symbol("main_arena")->size == arena.size);
  CHECK(debug->find_symbol("mp_")->size == layouts.at("malloc_par").size);
}
