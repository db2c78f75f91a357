// The files of this very process, checked against what the loader made of them.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <link.h>

#include <cstdlib>
#include <cstring>

#include "elf/debug_file_search.h"
#include "elf/elf_image.h"
#include "elf_builder.h"
#include "opened_image.h"

using namespace heapsnap;

extern "C" int heapsnap_elf_test_function(int value) {
  return value * 7 + 3;
}
// A pointer in writable data: the loader relocates it.
int (*volatile heapsnap_elf_test_pointer)(int) = heapsnap_elf_test_function;
thread_local int heapsnap_elf_test_thread_local = 41;

namespace {

uint64_t executable_bias() {
  uint64_t bias = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        *static_cast<uint64_t*>(out) = info->dlpi_addr;
        return 1;  // the executable comes first
      },
      &bias);
  return bias;
}

std::string path_of_libc(uint64_t& bias) {
  Dl_info info = {};
  REQUIRE(dladdr(reinterpret_cast<void*>(dlsym(RTLD_NEXT, "mallopt")), &info) != 0);
  bias = reinterpret_cast<uint64_t>(info.dli_fbase);
  return info.dli_fname;
}

}  // namespace

TEST_CASE("this executable: symbols, bytes and relocations are those of the running process") {
  const auto image = open_image("/proc/self/exe");
  const uint64_t bias = executable_bias();
  CHECK(image.has_interpreter());
  CHECK(image.tls_segment() != nullptr);
  heapsnap_elf_test_thread_local++;

  const ElfSymbol* function = image.find_symbol("heapsnap_elf_test_function");
  REQUIRE(function != nullptr);
  CHECK(bias + function->value == reinterpret_cast<uint64_t>(&heapsnap_elf_test_function));
  CHECK(function->type == STT_FUNC);
  const auto code = image.bytes_at(function->value, function->size);
  REQUIRE(code.size() == function->size);
  CHECK(std::memcmp(code.data(), reinterpret_cast<void*>(&heapsnap_elf_test_function),
                    code.size()) == 0);

  if (image.type() != ET_DYN) {
    MESSAGE("skipped: not position-independent, so nothing in here is relocated");
    return;
  }
  const uint64_t pointer = reinterpret_cast<uint64_t>(&heapsnap_elf_test_pointer) - bias;
  int found = 0;
  for (const ElfRelocation& relocation : image.relocations()) {
    if (relocation.offset != pointer) continue;
    ++found;
    const auto& symbols = image.dynamic_symbols();
    const uint64_t target =
        relocation.symbol == 0 ? relocation.addend : symbols.at(relocation.symbol).value;
    CHECK(bias + target == reinterpret_cast<uint64_t>(&heapsnap_elf_test_function));
  }
  CHECK(found == 1);
}

TEST_CASE("libc: the loader's addresses, with and without section headers") {
  uint64_t bias = 0;
  const std::string path = path_of_libc(bias);
  const auto image = open_image(path);
  const ElfSymbol* symbol = image.find_symbol("mallopt");
  REQUIRE(symbol != nullptr);
  CHECK(bias + symbol->value == reinterpret_cast<uint64_t>(dlsym(RTLD_NEXT, "mallopt")));
  CHECK(image.build_id().size() >= 16);
  CHECK(image.relocations().size() > 100);

  test::Bytes stripped(image.file_bytes().begin(), image.file_bytes().end());
  test::put_at(stripped, offsetof(Elf64_Ehdr, e_shoff), uint64_t{0});
  test::put_at(stripped, offsetof(Elf64_Ehdr, e_shnum), uint16_t{0});
  const auto bare = ElfImage::from_bytes(stripped, "libc without section headers");
  CHECK(bare.sections().empty());
  CHECK(bare.dynamic_symbols().size() == image.dynamic_symbols().size());
  CHECK(bare.find_symbol("mallopt")->value == symbol->value);
  CHECK(bare.build_id() == image.build_id());
}

TEST_CASE("libc's separate debug file, where it is installed") {
  uint64_t bias = 0;
  const std::string path = path_of_libc(bias);
  const auto libc = open_image(path);
  const auto debug = DebugFileSearch().find(libc, path);
  if (!debug) {
    MESSAGE("skipped: no debug file of " << path << " on this machine (package libc6-dbg)");
    return;
  }
  CHECK(debug->build_id() == libc.build_id());
  CHECK(debug->find_symbol("main_arena") != nullptr);
  CHECK(debug->find_symbol("mallopt")->value == libc.find_symbol("mallopt")->value);
}
