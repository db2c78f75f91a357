#include "references/variable_names.h"

#include <doctest/doctest.h>

#include "fake_module.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

std::string variable_name(const VariableNames& names, uint64_t address) {
  const auto found = names.variable_at(address);
  return found ? std::string(found->symbol) : "-";
}

}  // namespace

TEST_CASE("the innermost variable whose extent holds the address") {
  FakeModule module;
  module.symbols = {{"before", 0x2000, 8},
                    {"table", 0x2010, 0x40},
                    {"inner", 0x2020, 8},
                    {"without_size", 0x2080, 0},
                    {"bss", 0x3ff8, 8},
                    {"code", 0x10, 0x20, STT_FUNC},
                    {"constant", 0x800, 0x20},
                    {"elsewhere", 0x2100, 8, STT_OBJECT, STB_GLOBAL, SHN_UNDEF},
                    {"copied@GLIBC_2.2.5", 0x2200, 8},
                    {"@", 0x2300, 8}};
  const Bytes bytes = module.bytes();
  const ElfImage image = ElfImage::from_bytes(bytes, "module");
  const VariableNames names(image, nullptr);
  CHECK(variable_name(names, 0x1fff) == "-");
  CHECK(variable_name(names, 0x2000) == "before");
  CHECK(variable_name(names, 0x2007) == "before");
  CHECK(variable_name(names, 0x2008) == "-");
  CHECK(variable_name(names, 0x2010) == "table");
  CHECK(variable_name(names, 0x2020) == "inner");
  CHECK(variable_name(names, 0x2028) == "table");
  CHECK(variable_name(names, 0x204f) == "table");
  CHECK(variable_name(names, 0x2050) == "-");
  CHECK(variable_name(names, 0x2080) == "-");
  CHECK(variable_name(names, 0x3fff) == "bss");
  CHECK(variable_name(names, 0x4000) == "-");
  CHECK(variable_name(names, 0x10) == "-");
  CHECK(variable_name(names, 0x800) == "-");
  CHECK(variable_name(names, 0x2100) == "-");
  CHECK(variable_name(names, 0x2200) == "copied");
  CHECK(variable_name(names, 0x2300) == "-");
  const auto table = names.variable_at(0x2018);
  REQUIRE(table);
  CHECK(table->begin == 0x2010);
  CHECK(table->size == 0x40);
}

TEST_CASE("of several names the one that other programs would use") {
  FakeModule module;
  module.symbols = {{"__environ", 0x2000, 8},
                    {"environ", 0x2000, 8},
                    {"_environ", 0x2000, 8},
                    {"local", 0x2000, 8, STT_OBJECT, STB_LOCAL}};
  const Bytes bytes = module.bytes();
  const ElfImage image = ElfImage::from_bytes(bytes, "module");
  CHECK(variable_name(VariableNames(image, nullptr), 0x2004) == "environ");
}

TEST_CASE("variables of one name have their files") {
  FakeModule module;
  module.symbols = {{"orders.cpp", 0, 0, STT_FILE, STB_LOCAL, SHN_ABS},
                    {"cache", 0x2000, 8, STT_OBJECT, STB_LOCAL},
                    {"orders", 0x2010, 8, STT_OBJECT, STB_LOCAL},
                    {"users.cpp", 0, 0, STT_FILE, STB_LOCAL, SHN_ABS},
                    {"cache", 0x2008, 8, STT_OBJECT, STB_LOCAL},
                    {"users", 0x2018, 8}};
  const Bytes bytes = module.bytes();
  const ElfImage image = ElfImage::from_bytes(bytes, "module");
  const VariableNames names(image, nullptr);
  const auto file_at = [&](uint64_t address) {
    const auto found = names.variable_at(address);
    REQUIRE(found);
    return std::string(found->file);
  };
  CHECK(variable_name(names, 0x2000) == "cache");
  CHECK(file_at(0x2000) == "orders.cpp");
  CHECK(file_at(0x2008) == "users.cpp");
  CHECK(file_at(0x2010) == "");
  CHECK(file_at(0x2018) == "");
}

TEST_CASE("sizes that reach out of the data are of no variable") {
  FakeModule module;
  module.symbols = {{"huge", 0x2000, UINT64_MAX},
                    {"wraps", 0x2000, UINT64_MAX - 0x1fff},
                    {"past_end", 0x3ff8, 16},
                    {"far", UINT64_MAX - 4, 8},
                    {"thread", 0x10, 0x100, STT_TLS}};
  module.tls = {PT_TLS, PF_R, 0x1000, 0x1000, 0, 0x20, 8};
  const Bytes bytes = module.bytes();
  const ElfImage image = ElfImage::from_bytes(bytes, "module");
  const VariableNames names(image, nullptr);
  for (const uint64_t address : {0x2000UL, 0x2fffUL, 0x3ff8UL, 0x4000UL, UINT64_MAX}) {
    CHECK(variable_name(names, address) == "-");
  }
  CHECK_FALSE(names.thread_local_at(0x10));
}

TEST_CASE("thread-local variables by their place in the block, also from a debug file") {
  FakeModule debug;
  debug.symbols = {{"first", 0, 8, STT_TLS}, {"second", 0x10, 0x10, STT_TLS}, {"data", 0x2000, 8}};
  debug.tls = {PT_TLS, PF_R, 0x1000, 0x1000, 0, 0x20, 8};
  FakeModule stripped;
  stripped.tls = debug.tls;
  const Bytes bytes = stripped.bytes();
  const Bytes debug_bytes = debug.bytes();
  const ElfImage image = ElfImage::from_bytes(bytes, "module");
  const ElfImage debug_image = ElfImage::from_bytes(debug_bytes, "module.debug");
  CHECK_FALSE(VariableNames(image, nullptr).thread_local_at(0));
  const VariableNames names(image, &debug_image);
  REQUIRE(names.thread_local_at(7));
  CHECK(names.thread_local_at(7)->symbol == "first");
  CHECK_FALSE(names.thread_local_at(8));
  REQUIRE(names.thread_local_at(0x1f));
  CHECK(names.thread_local_at(0x1f)->symbol == "second");
  CHECK(names.thread_local_at(0x1f)->begin == 0x10);
  CHECK(variable_name(names, 0x2000) == "data");
}
