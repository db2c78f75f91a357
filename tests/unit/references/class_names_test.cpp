#include "references/class_names.h"

#include <doctest/doctest.h>

#include "fake_module.h"
#include "references/block_types.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

constexpr Address kModule{0x7f0000300000};

// A module with the type_info of one class, and of cxxabi's own class for it:
//
//   0x1000 vtable of shop::Session   0x1100 its type_info   0x1200 its name
//   0x1400 vtable of the type_info   0x1500 its type_info   0x1600 its name
struct ClassFixture {
  static constexpr Address kVtable = kModule + 0x1010;
  FakeTarget target{Machine::kX86_64};
  FakeModule module;

  ClassFixture() {
    module.symbols = {{"_ZTVN4shop7SessionE", 0x1000, 0x40},
                      {"_ZTVN5plain6SquareE", 0x1800, 0x28},
                      {"no_vtable", 0x1a00, 0x40}};
    module.load(target, kModule, "/bin/shop");
    put_class(0x1000, 0x1100, 0x1200, "N4shop7SessionE", 0x1400);
    put_class(0x1400, 0x1500, 0x1600, "N10__cxxabiv120__si_class_type_infoE", 0x1400);
  }

  void put(uint64_t at, uint64_t value) { target.put_word(kModule + at, value); }
  void put_text(uint64_t at, std::string_view text) {
    Bytes bytes;
    test::put_text(bytes, text);
    bytes.push_back(std::byte{0});
    target.put_bytes(kModule + at, bytes);
  }
  void put_class(uint64_t vtable, uint64_t type_info, uint64_t name, std::string_view text,
                 uint64_t own_vtable) {
    put(vtable, 0);
    put(vtable + 8, kModule.value() + type_info);
    put(vtable + 16, kModule.value() + 0x100);
    put(type_info, kModule.value() + own_vtable + 16);
    put(type_info + 8, kModule.value() + name);
    put_text(name, text);
  }

  std::string type_of(uint64_t word, bool with_symbols = false) {
    const LoadedModules modules(target);
    BlockTypeList types;
    VtableTypes found = find_vtable_types(target, modules, std::span(&word, 1), types);
    if (with_symbols) name_by_symbols(found, modules, DebugFileSearch(), types);
    if (found.known.empty()) return found.without_rtti.empty() ? "-" : "?";
    CHECK(found.known.size() == 1);
    CHECK(found.known[0].first_word == word);
    CHECK(types.all()[found.known[0].type].module == "/bin/shop");
    CHECK(types.all()[found.known[0].type].source == TypeSource::kVtable);
    return types.all()[found.known[0].type].name;
  }
  std::string type_of_session() { return type_of(kVtable.value()); }
};

}  // namespace

TEST_CASE("names of classes, mangled by type_info and by symbol") {
  CHECK(class_of_type_name("N4shop7SessionE") == "shop::Session");
  CHECK(class_of_type_name("7Session") == "Session");
  CHECK(class_of_type_name("*N12_GLOBAL__N_17SessionE") == "(anonymous namespace)::Session");
  CHECK(class_of_type_name("St13runtime_error") == "std::runtime_error");
  CHECK(class_of_type_name("4PairIiPKcE") == "Pair<int, char const*>");
  CHECK(class_of_type_name("Z4mainE5Local") == "main::Local");
  for (const char* none : {"", "*", "i", "PKc", "7Sess", "N4shop", "Session", "_ZN4shopE", "0x",
                           "FvvE", "99999999999999999999A"}) {
    CAPTURE(std::string(none));
    CHECK(class_of_type_name(none) == "");
  }
  CHECK(class_of_type_name(std::string(5000, '1')) == "");
  CHECK(class_of_vtable_symbol("_ZTVN4shop7SessionE") == "shop::Session");
  CHECK(class_of_vtable_symbol("_ZTIN4shop7SessionE") == "");
  CHECK(class_of_vtable_symbol("_ZTV") == "");
  CHECK(class_of_vtable_symbol("_ZTVi@") == "");
}

TEST_CASE("the class of an object by its type_info in memory") {
  ClassFixture fixture;
  CHECK(fixture.type_of_session() == "shop::Session");
  CHECK(fixture.type_of(ClassFixture::kVtable.value() + 8) == "-");
  CHECK(fixture.type_of(ClassFixture::kVtable.value() - 8) == "-");
  CHECK(fixture.type_of(ClassFixture::kVtable.value() + 1) == "-");
  for (const uint64_t word : {uint64_t{0}, uint64_t{8}, uint64_t{0x1234}, UINT64_MAX,
                              UINT64_MAX - 7, kModule.value(), kModule.value() + 0x4000}) {
    CHECK(fixture.type_of(word) == "-");
  }
}

TEST_CASE("what is no vtable of a whole object is no type") {
  ClassFixture fixture;
  SUBCASE("one of a base that lies further inside") {
    fixture.put(0x1000, static_cast<uint64_t>(-16));
  }
  SUBCASE("a type_info that is not a class's") {
    fixture.put_text(0x1600, "N10__cxxabiv119__pointer_type_infoE");
  }
  SUBCASE("a type_info whose class is any") {
    fixture.put_text(0x1600, "7Session");
  }
  SUBCASE("a type_info that cannot be read") {
    fixture.put(0x1008, 0x1000);
  }
  SUBCASE("a type_info that is not aligned") {
    fixture.put(0x1008, kModule.value() + 0x1104);
  }
  SUBCASE("a type_info in no module") {
    fixture.target.map("10000-11000 rw-p 00000000 00:00 0");
    fixture.put(0x1008, 0x10000);
  }
  SUBCASE("a name that is none") {
    fixture.put_text(0x1200, "four shops");
  }
  SUBCASE("a name that does not demangle") {
    fixture.put_text(0x1200, "N4shop7Sess");
  }
  SUBCASE("an empty name") {
    fixture.put_text(0x1200, "");
  }
  SUBCASE("a name without an end") {
    for (const uint64_t page : {0x2000, 0x3000}) {
      fixture.target.put_bytes(kModule + page, Bytes(0x1000, std::byte{'7'}));
    }
    fixture.put(0x1108, kModule.value() + 0x2000);
  }
  SUBCASE("a name that cannot be read") {
    fixture.put(0x1108, 8);
  }
  CHECK(fixture.type_of_session() == "-");
}

TEST_CASE("without RTTI the symbol decides") {
  ClassFixture fixture;
  fixture.put(0x1800, 0);
  fixture.put(0x1808, 0);
  fixture.put(0x1810, kModule.value() + 0x100);
  const uint64_t word = kModule.value() + 0x1810;
  CHECK(fixture.type_of(word) == "?");
  CHECK(fixture.type_of(word, true) == "plain::Square");
  SUBCASE("which must hold it") {
    fixture.put(0x1a10, kModule.value() + 0x100);
    CHECK(fixture.type_of(kModule.value() + 0x1a10, true) == "?");
    fixture.put(0x1810 + 0x18, kModule.value() + 0x100);
    CHECK(fixture.type_of(kModule.value() + 0x1828, true) == "?");
  }
  SUBCASE("and the first function must be one") {
    fixture.put(0x1810, kModule.value() + 0x2000);
    CHECK(fixture.type_of(word, true) == "-");
  }
}

TEST_CASE("where vtables may lie: in what of modules is of their files") {
  ClassFixture fixture;
  const LoadedModules modules(fixture.target);
  const std::vector<AddressRange> expected = {{kModule, kModule + FakeModule::kFileEnd}};
  CHECK(vtable_ranges(modules, fixture.target.address_space()) == expected);
}

TEST_CASE("a FILE is one by its functions") {
  ClassFixture fixture;
  fixture.target.map("10000-11000 rw-p 00000000 00:00 0 [heap]");
  for (unsigned i = 2; i < 8; ++i) fixture.put(0x1900 + i * 8, kModule.value() + 0x100);
  const Address block(0x10010);
  fixture.target.put_word(block, 0xfbad2488);
  fixture.target.put_word(block + 0xd8, kModule.value() + 0x1900);
  const auto is_file = [&](uint64_t usable = 552) {
    const LoadedModules modules(fixture.target);
    BlockTypeList types;
    const BlockWord word{block, usable, *fixture.target.memory().read_value<uint64_t>(block)};
    const auto found = find_structure_types(fixture.target, modules, std::span(&word, 1), types);
    REQUIRE(found.size() == 1);
    return found[0] != 0 && types.all()[found[0]].name == "FILE";
  };
  CHECK(is_file());
  CHECK_FALSE(is_file(0xd8));
  SUBCASE("not without its magic") {
    fixture.target.put_word(block, 0xfcad2488);
    CHECK_FALSE(is_file());
  }
  SUBCASE("not with other functions") {
    fixture.put(0x1910, kModule.value() + 0x2000);
    CHECK_FALSE(is_file());
  }
  SUBCASE("not with functions that lie elsewhere") {
    fixture.target.put_word(block + 0xd8, 0x10100);
    CHECK_FALSE(is_file());
  }
}

TEST_CASE("a type is listed once") {
  BlockTypeList types;
  const TypeNumber first = types.add({"A", "/bin/a", TypeSource::kVtable});
  CHECK(first == 1);
  CHECK(types.add({"A", "/bin/b", TypeSource::kVtable}) == 2);
  CHECK(types.add({"A", "/bin/a", TypeSource::kVtable}) == first);
  CHECK(types.all().size() == 3);
  CHECK(types.all()[0] == BlockType{});
}
