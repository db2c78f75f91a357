#include "elf/debug_file_search.h"

#include <doctest/doctest.h>
#include <lzma.h>

#include "elf_builder.h"
#include "tests/unit/temporary_folder.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

constexpr std::string_view kId = "ABCDEFGHIJKLMNOPQRST";
constexpr const char* kIdFile = ".build-id/41/42434445464748494a4b4c4d4e4f5051525354.debug";

// A stripped module, or with `symbols` a file that can serve as its debug file.
Bytes make_file(std::string_view build_id, bool symbols, const std::string& link = {},
                uint32_t crc = 0) {
  ElfBuilder builder(Machine::kX86_64, ET_DYN);
  if (!build_id.empty()) {
    Bytes notes;
    put_build_id(notes, build_id);
    const uint64_t at = builder.append(notes);
    builder.section(
        {.name = ".note.gnu.build-id", .type = SHT_NOTE, .file_offset = at, .size = notes.size()});
  }
  if (symbols) {
    const uint64_t at = builder.append(Bytes(sizeof(Elf64_Sym)));
    builder.section(
        {.name = ".symtab", .type = SHT_SYMTAB, .file_offset = at, .size = sizeof(Elf64_Sym)});
  }
  if (!link.empty()) {
    Bytes content;
    put_text(content, link);
    content.resize((link.size() + 4) & ~size_t{3});
    put(content, crc);
    const uint64_t at = builder.append(content);
    builder.section({.name = ".gnu_debuglink",
                     .type = SHT_PROGBITS,
                     .file_offset = at,
                     .size = content.size()});
  }
  return builder.finish();
}

uint32_t crc_of(const Bytes& bytes) {
  return lzma_crc32(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), 0);
}

// Path of what is found, below the folder; empty when nothing is.
std::string found_path(const TemporaryFolder& folder, const Bytes& module_bytes,
                       const std::string& module_path, DebugFileSearch::Options options) {
  const auto module = ElfImage::from_bytes(module_bytes, "module");
  const auto found = DebugFileSearch(std::move(options)).find(module, module_path);
  if (!found) return {};
  CHECK(found->section(".symtab") != nullptr);
  return found->name().starts_with(folder.path()) ? found->name().substr(folder.path().size())
                                                  : found->name();
}

DebugFileSearch::Options in_folder(const TemporaryFolder& folder) {
  return {.directories = {folder.path() + "/debug"}, .debuginfod_cache = false};
}

}  // namespace

TEST_CASE("by build-id, and only when the file found has it too") {
  TemporaryFolder folder;
  const Bytes module = make_file(kId, false);
  CHECK(found_path(folder, module, "/lib/m.so", in_folder(folder)).empty());
  folder.write(std::string("debug/") + kIdFile, make_file("another build id....", true));
  CHECK(found_path(folder, module, "/lib/m.so", in_folder(folder)).empty());
  folder.write(std::string("debug/") + kIdFile, make_file(kId, false));
  CHECK(found_path(folder, module, "/lib/m.so", in_folder(folder)).empty());
  folder.write(std::string("debug/") + kIdFile, make_file(kId, true));
  CHECK(found_path(folder, module, "/lib/m.so", in_folder(folder)) ==
        std::string("/debug/") + kIdFile);
}

TEST_CASE("by debuglink, with the CRC where there is no build-id") {
  TemporaryFolder folder;
  const Bytes debug = make_file({}, true);
  const Bytes module = make_file({}, false, "m.debug", crc_of(debug));
  const Bytes stale = make_file({}, false, "m.debug", crc_of(debug) + 1);
  const std::string place = folder.path() + "/app/m.so";
  for (const char* where : {"app/m.debug", "app/.debug/m.debug"}) {
    const std::string path = folder.write(where, debug);
    CHECK(found_path(folder, module, place, in_folder(folder)) == "/" + std::string(where));
    CHECK(found_path(folder, stale, place, in_folder(folder)).empty());
    std::filesystem::remove(path);
  }
  const std::string below = "debug" + folder.path() + "/app/m.debug";
  folder.write(below, debug);
  CHECK(found_path(folder, module, place, in_folder(folder)) == "/" + below);
  // The name of a debuglink is a name, not a path.
  folder.write("secret.debug", debug);
  const Bytes climbing = make_file({}, false, "../secret.debug", crc_of(debug));
  CHECK(found_path(folder, climbing, place, in_folder(folder)).empty());
}

TEST_CASE("by the module's path, as Debian and Ubuntu had it until 2018") {
  TemporaryFolder folder;
  const Bytes module = make_file(kId, false);
  folder.write("debug/lib/libc-2.23.so", make_file(kId, true));
  CHECK(found_path(folder, module, "/lib/libc-2.23.so", in_folder(folder)) ==
        "/debug/lib/libc-2.23.so");
  // The same where /lib is a link to /usr/lib by now.
  CHECK(found_path(folder, module, "/usr/lib/libc-2.23.so", in_folder(folder)) ==
        "/debug/lib/libc-2.23.so");
  CHECK(found_path(folder, make_file("another build id....", false), "/lib/libc-2.23.so",
                   in_folder(folder))
            .empty());
}

TEST_CASE("below a sysroot first") {
  TemporaryFolder folder;
  const Bytes module = make_file(kId, false);
  auto options = in_folder(folder);
  options.directories = {"/usr/lib/debug"};
  options.sysroot = folder.path() + "/root";
  folder.write(std::string("root/usr/lib/debug/") + kIdFile, make_file(kId, true));
  CHECK(found_path(folder, module, "/lib/m.so", options) ==
        std::string("/root//usr/lib/debug/") + kIdFile);
}

TEST_CASE("in the debuginfod cache, unless that is switched off") {
  TemporaryFolder folder;
  const Bytes module = make_file(kId, false);
  auto options = in_folder(folder);
  options.debuginfod_cache = true;
  ::setenv("DEBUGINFOD_CACHE_PATH", (folder.path() + "/cache").c_str(), 1);
  const std::string place = "cache/4142434445464748494a4b4c4d4e4f5051525354/debuginfo";
  // What no server had is an empty file.
  folder.write(place, Bytes{});
  CHECK(found_path(folder, module, "/lib/m.so", options).empty());
  folder.write(place, make_file(kId, true));
  CHECK(found_path(folder, module, "/lib/m.so", options) == "/" + place);
  options.debuginfod_cache = false;
  CHECK(found_path(folder, module, "/lib/m.so", options).empty());
  ::unsetenv("DEBUGINFOD_CACHE_PATH");
}

TEST_CASE("the module itself is no debug file of its own") {
  TemporaryFolder folder;
  const Bytes module = make_file(kId, false, "m.so", 1);
  folder.write("app/m.so", module);
  CHECK(found_path(folder, module, folder.path() + "/app/m.so", in_folder(folder)).empty());
}
