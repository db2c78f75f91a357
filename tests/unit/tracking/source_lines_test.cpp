#include "tracking/source_lines.h"

#include <doctest/doctest.h>
#include <dwarf.h>

#include "tests/unit/elf/elf_builder.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

constexpr uint64_t kCode = 0x1000;
constexpr uint64_t kCodeSize = 0x100;
constexpr size_t kUnitHeader = 11;  // of 32-bit DWARF 4

void put_bytes(Bytes& bytes, std::initializer_list<unsigned> values) {
  for (const unsigned value : values) bytes.push_back(static_cast<std::byte>(value));
}

Bytes file_with(const Bytes& abbreviations, const Bytes& unit) {
  ElfBuilder elf(Machine::kX86_64, ET_DYN);
  for (const auto& [name, content] :
       {std::pair{".debug_abbrev", &abbreviations}, std::pair{".debug_info", &unit}}) {
    ElfSection section;
    section.name = name;
    section.type = SHT_PROGBITS;
    section.file_offset = elf.append(*content);
    section.size = content->size();
    elf.section(section);
  }
  return elf.finish();
}

}  // namespace

TEST_CASE("entries whose lists lie in each other are looked at once") {
  // The child of each of them is its sibling as well: 2 ways to the second, 4 to the third ...
  constexpr uint32_t kNested = 60;
  Bytes abbreviations;
  put_bytes(abbreviations, {1, DW_TAG_compile_unit, 1, DW_AT_low_pc, DW_FORM_addr, DW_AT_high_pc,
                            DW_FORM_data8, 0, 0});
  put_bytes(abbreviations, {2, DW_TAG_namespace, 1, DW_AT_sibling, DW_FORM_ref4, 0, 0});
  put_bytes(abbreviations, {3, DW_TAG_subprogram, 0, DW_AT_low_pc, DW_FORM_addr, DW_AT_high_pc,
                            DW_FORM_data8, DW_AT_name, DW_FORM_string, 0, 0, 0});
  Bytes entries;
  put_bytes(entries, {1});
  put(entries, kCode);
  put(entries, kCodeSize);
  for (uint32_t i = 0; i < kNested; ++i) {
    put_bytes(entries, {2});
    put(entries, static_cast<uint32_t>(kUnitHeader + entries.size() + sizeof(uint32_t)));
  }
  put_bytes(entries, {3});
  put(entries, kCode);
  put(entries, kCodeSize);
  put_text(entries, "innermost");
  entries.resize(entries.size() + 1 + kNested + 1);
  Bytes unit;
  put(unit, static_cast<uint32_t>(kUnitHeader - sizeof(uint32_t) + entries.size()));
  put(unit, uint16_t{4});
  put(unit, uint32_t{0});
  put_bytes(unit, {8});
  unit.insert(unit.end(), entries.begin(), entries.end());

  const Bytes file = file_with(abbreviations, unit);
  const auto lines = SourceLines::open(file);
  REQUIRE(lines != nullptr);
  const auto frames = lines->frames_at(kCode + 8);
  REQUIRE(frames.size() == 1);
  CHECK(frames[0].function.ends_with("innermost"));
  CHECK(frames[0].offset == 8);
}
