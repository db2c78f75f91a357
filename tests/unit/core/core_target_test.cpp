#include "core/core_target.h"

#include <doctest/doctest.h>
#include <zstd.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "core_builder.h"
#include "core_process.h"
#include "tests/unit/elf/sample_library.h"
#include "tests/unit/temporary_folder.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

std::string joined(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += note + "\n";
  return text;
}

Bytes file_bytes(const std::string& path) {
  const auto file = MappedFile::open(path);
  return {file.bytes().begin(), file.bytes().end()};
}

std::unique_ptr<Target> open(const CoreOptions& options, std::vector<std::string>& notes) {
  notes.clear();
  return open_core(options, notes);
}

ErrorKind kind_of_failure(const CoreOptions& options) {
  std::vector<std::string> notes;
  try {
    open_core(options, notes);
  } catch (const Error& error) {
    return error.kind();
  }
  return ErrorKind::kInternal;
}

void check_process(Target& target, const CoreProcess& process) {
  CHECK(target.process().pid == process.pid());
  CHECK(target.process().comm == "core_fixture");
  CHECK(target.process().exe == CORE_FIXTURE);
  CHECK(target.process().machine == Machine::kX86_64);
  REQUIRE(target.threads().size() == process.threads().size());
  for (const Thread& thread : target.threads()) {
    REQUIRE(process.threads().count(thread.tid) == 1);
    REQUIRE(thread.registers);
    CHECK(thread.registers->thread_pointer == process.threads().at(thread.tid));
    CHECK(target.address_space().find(thread.registers->stack_pointer) != nullptr);
    const Mapping* code = target.address_space().find(thread.registers->instruction_pointer);
    REQUIRE(code != nullptr);
    CHECK(code->executable);
  }
}

void check_buffer(Target& target, const CoreProcess& process) {
  const Mapping* mapping = target.address_space().find(process.buffer().begin);
  REQUIRE(mapping != nullptr);
  CHECK(mapping->is_private_writable());
  CHECK(mapping->is_anonymous());
  Bytes read(process.buffer().size());
  REQUIRE(target.memory().read_exact(process.buffer().begin, read));
  size_t wrong = 0;
  for (size_t i = 0; i < read.size(); ++i) {
    if (read[i] != static_cast<std::byte>(i * 7 + 1)) ++wrong;
  }
  CHECK(wrong == 0);
}

// Every mapping of a file that the process had is there, at its place, with its permissions, and
// reads as the file does (code) or at all (data).
void check_mappings(Target& target, const std::vector<Mapping>& before) {
  size_t files = 0;
  for (const Mapping& mapping : before) {
    if (!mapping.path.starts_with('/') || !mapping.readable) continue;
    ++files;
    CAPTURE(mapping.path);
    CAPTURE(mapping.file_offset);
    const Mapping* found = target.address_space().find(mapping.range.begin);
    REQUIRE(found != nullptr);
    CHECK(found->range == mapping.range);
    CHECK(found->path == mapping.path);
    CHECK(found->file_offset == mapping.file_offset);
    CHECK(found->writable == mapping.writable);
    CHECK(found->executable == mapping.executable);
    CHECK_FALSE(found->is_anonymous());
    CHECK(target.open_file(*found));
    Bytes bytes(mapping.range.size());
    CHECK(target.memory().read_exact(mapping.range.begin, bytes));
    if (!mapping.executable) continue;
    const auto file = MappedFile::open(mapping.path);
    const auto original = clipped(file.bytes(), mapping.file_offset, bytes.size());
    CHECK(std::memcmp(bytes.data(), original.data(), original.size()) == 0);
  }
  CHECK(files >= 8);
}

}  // namespace

TEST_CASE("a core made by gcore, whole, packed, cut off and without its files") {
  TemporaryFolder folder;
  CoreProcess process(CORE_FIXTURE);
  const auto mappings = process.mappings();
  const std::string path = process.gcore(folder.path());
  if (path.empty()) {
    MESSAGE("skipped: gcore made no core here (gdb missing, or ptrace barred)");
    return;
  }
  std::vector<std::string> notes;
  SUBCASE("whole") {
    const auto target = open({.core_path = path}, notes);
    CHECK(joined(notes) == "");
    check_process(*target, process);
    check_buffer(*target, process);
    check_mappings(*target, mappings);
    CHECK(target->process().fatal_signal == 0);
    CHECK(target->process().taken_at_ns > 0);
  }
  SUBCASE("packed by zstd, also when that is cut off") {
    const Bytes plain = file_bytes(path);
    Bytes packed(ZSTD_compressBound(plain.size()));
    packed.resize(ZSTD_compress(packed.data(), packed.size(), plain.data(), plain.size(), 1));
    const std::string packed_path = folder.write("core.zst", packed);
    const auto target = open({.core_path = packed_path}, notes);
    CHECK(joined(notes) == "");
    check_process(*target, process);
    check_buffer(*target, process);

    packed.resize(packed.size() / 2);
    const std::string cut_path = folder.write("cut.zst", packed);
    const auto cut = open({.core_path = cut_path}, notes);
    CHECK(joined(notes).find(" is truncated: ") != std::string::npos);
    CHECK(joined(notes).find("is truncated: it contains") != std::string::npos);
    CHECK(!cut->address_space().mappings().empty());
  }
  SUBCASE("below a sysroot that has none of the files") {
    const auto target = open({.core_path = path, .sysroot = folder.path()}, notes);
    CHECK(joined(notes).find("cannot be opened") != std::string::npos);
    CHECK(joined(notes).find("--sysroot") != std::string::npos);
    check_buffer(*target, process);
    const Mapping* heap = target->address_space().find(process.buffer().begin);
    CHECK_FALSE(target->open_file(*heap));
  }
  SUBCASE("another program in the place of the executable") {
    const auto target = open({.core_path = path, .exe = "/proc/self/exe"}, notes);
    CHECK(joined(notes).find("have changed since (" CORE_FIXTURE ")") != std::string::npos);
  }
  SUBCASE("the executable moved, and named") {
    const std::string moved = folder.write("moved/program", file_bytes(CORE_FIXTURE));
    const auto target = open({.core_path = path, .exe = moved}, notes);
    CHECK(joined(notes) == "");
    check_mappings(*target, mappings);
  }
}

TEST_CASE("a core made by the kernel") {
  TemporaryFolder folder;
  CoreProcess process(CORE_FIXTURE, folder.path());
  const std::string path = process.kernel_core();
  if (path.empty()) {
    MESSAGE("skipped: the kernel leaves no core in the working folder here (core_pattern)");
    return;
  }
  std::vector<std::string> notes;
  const auto target = open({.core_path = path}, notes);
  CHECK(joined(notes) == "");
  check_process(*target, process);
  check_buffer(*target, process);
  CHECK(target->process().fatal_signal == SIGABRT);

  Bytes bytes = file_bytes(path);
  bytes.resize(bytes.size() / 2);
  const std::string cut_path = folder.write("cut", bytes);
  const auto cut = open({.core_path = cut_path}, notes);
  CHECK(joined(notes).find("is truncated: it contains") != std::string::npos);
  CHECK(cut->process().pid == process.pid());
  CHECK(cut->address_space().mappings().size() == target->address_space().mappings().size());
}

TEST_CASE("what the dump left out comes from a file only when that is the same") {
  TemporaryFolder folder;
  const auto library = sample_library(Machine::kX86_64).bytes;
  const std::string path = folder.write("lib/sample.so", library);
  Bytes whole_page = library;
  whole_page.resize(0x1000);
  const auto core_with = [&](const Bytes& first_page, uint32_t flags) {
    CoreNotesBuilder notes(Machine::kX86_64);
    notes.thread(1, 0, 1, 1, 1)
        .files(4096, {{0x10000, 0x11000, 0, path}, {0x20000, 0x21000, 0, path}});
    return folder.write(
        "core",
        make_core(
            Machine::kX86_64, notes.bytes(),
            {{.address = 0x10000, .memory_size = 0x1000, .flags = PF_R, .contents = first_page},
             {.address = 0x20000, .memory_size = 0x1000, .flags = flags, .contents = {}},
             {.address = 0x30000,
              .memory_size = 0x1000,
              .flags = PF_R | PF_W,
              .contents = Bytes(16)}}));
  };
  const auto readable = [](Target& target) {
    Bytes out(0x1000);
    return target.memory().read(Address(0x20000), out);
  };
  std::vector<std::string> notes;

  SUBCASE("build-id as recorded") {
    const auto target = open({.core_path = core_with(whole_page, PF_R)}, notes);
    CHECK(joined(notes) == "");
    CHECK(readable(*target) == library.size());
    CHECK(target->open_file(*target->address_space().find(Address(0x20000))));
  }
  SUBCASE("writable: the file may hold something else") {
    const auto target = open({.core_path = core_with(whole_page, PF_R | PF_W)}, notes);
    CHECK(readable(*target) == 0);
  }
  SUBCASE("another build-id") {
    Bytes other = whole_page;
    const std::string id(kSampleBuildId);
    const auto at = std::search(other.begin(), other.end(), id.begin(), id.end(),
                                [](std::byte a, char b) { return a == static_cast<std::byte>(b); });
    REQUIRE(at != other.end());
    *at = std::byte{'X'};
    const auto target = open({.core_path = core_with(other, PF_R)}, notes);
    CHECK(joined(notes).find("have changed since") != std::string::npos);
    CHECK(readable(*target) == 0);
    CHECK_FALSE(target->open_file(*target->address_space().find(Address(0x20000))));
  }
  SUBCASE("no build-id recorded, but the size fits") {
    const auto target = open({.core_path = core_with({}, PF_R)}, notes);
    CHECK(joined(notes).find("because their sizes match") != std::string::npos);
    CHECK(readable(*target) == library.size());
  }
  SUBCASE("no build-id recorded, and too short by now") {
    CoreNotesBuilder builder(Machine::kX86_64);
    builder.files(4096, {{0x20000, 0x21000, 7, path}});
    const std::string core = folder.write(
        "core",
        make_core(Machine::kX86_64, builder.bytes(),
                  {{.address = 0x20000, .memory_size = 0x1000, .flags = PF_R, .contents = {}}}));
    const auto target = open({.core_path = core}, notes);
    CHECK(joined(notes).find("have changed since") != std::string::npos);
    CHECK(joined(notes).find("lists no threads") != std::string::npos);
    CHECK(readable(*target) == 0);
  }
}

TEST_CASE("a dump without writable memory is told apart from an empty heap") {
  TemporaryFolder folder;
  const std::string path = folder.write(
      "core",
      make_core(
          Machine::kX86_64, CoreNotesBuilder(Machine::kX86_64).bytes(),
          {{.address = 0x1000, .memory_size = 0x1000, .flags = PF_R | PF_W, .contents = {}}}));
  std::vector<std::string> notes;
  open({.core_path = path}, notes);
  CHECK(joined(notes).find("contains no writable memory") != std::string::npos);
}

TEST_CASE("a core whose memory no address space can hold is refused") {
  TemporaryFolder folder;
  std::vector<std::string> notes;
  const auto why_refused = [&](const std::vector<CoreSegment>& segments) -> std::string {
    CoreNotesBuilder builder(Machine::kX86_64);
    builder.thread(1, 0, 1, 1, 1);
    try {
      open({.core_path =
                folder.write("core", make_core(Machine::kX86_64, builder.bytes(), segments))},
           notes);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kBadInput);
      CHECK_FALSE(error.remedy().empty());
      return error.why();
    }
    return {};
  };
  const auto segment = [](uint64_t address, uint64_t size) {
    return CoreSegment{
        .address = address, .memory_size = size, .flags = PF_R | PF_W, .contents = Bytes(16)};
  };
  constexpr uint64_t kHalf = uint64_t{1} << 56;
  const CoreSegment vsyscall = segment(0xffffffffff600000, 0x1000);
  CHECK(why_refused({segment(0x1000, 0x1000), vsyscall}) == "");
  CHECK(why_refused({segment(0x1000, kHalf), segment(kHalf * 2, kHalf)}) == "");
  CHECK(why_refused({segment(0x1000, kHalf), segment(kHalf * 2, kHalf), vsyscall})
            .find("larger than an address space") != std::string::npos);
  CHECK(why_refused({segment(0x7fd987e14000, kHalf << 6)})
            .find("4611686018427387904 bytes at 0x7fd987e14000") != std::string::npos);
}

TEST_CASE("threads without thread pointers are told") {
  TemporaryFolder folder;
  CoreNotesBuilder builder(Machine::kX86_64);
  builder.thread(1, 0, 1, 1, 0).thread(2, 0, 1, 1, 0);
  std::vector<std::string> notes;
  open({.core_path = folder.write("core", make_core(Machine::kX86_64, builder.bytes(), {}))},
       notes);
  CHECK(joined(notes).find("has no thread pointers") != std::string::npos);
}

TEST_CASE("raw images alone are a target") {
  TemporaryFolder folder;
  const std::string low = folder.write("low", Bytes(0x1000, std::byte{1}));
  const std::string high = folder.write("high", Bytes(0x20, std::byte{2}));
  std::vector<std::string> notes;
  const auto target = open({.images = {{Address(0x7000), high}, {Address(0x2000), low}}}, notes);
  REQUIRE(target->address_space().mappings().size() == 2);
  CHECK(target->address_space().mappings()[0].range.begin == Address(0x2000));
  CHECK(target->address_space().mappings()[0].is_private_writable());
  CHECK(target->memory().read_value<uint8_t>(Address(0x701f)) == 2);
  CHECK_FALSE(target->memory().read_value<uint8_t>(Address(0x7020)));
  CHECK(target->threads().empty());
}

TEST_CASE("what is no core is refused") {
  TemporaryFolder folder;
  CHECK(kind_of_failure({}) == ErrorKind::kUsage);
  CHECK(kind_of_failure({.core_path = folder.path() + "/none"}) == ErrorKind::kBadInput);
  CHECK(kind_of_failure({.core_path = folder.path()}) == ErrorKind::kBadInput);
  CHECK(kind_of_failure({.core_path = "/proc/self/exe"}) == ErrorKind::kBadInput);
  Bytes text;
  put_text(text, "this is no core");
  CHECK(kind_of_failure({.core_path = folder.write("text", text)}) == ErrorKind::kBadInput);
  Bytes gzip(100, std::byte{0});
  put_at(gzip, 0, uint16_t{0x8b1f});
  CHECK(kind_of_failure({.core_path = folder.write("core.gz", gzip)}) == ErrorKind::kBadInput);
}

TEST_CASE("a full disk is told clearly") {
  TemporaryFolder folder;
  Bytes packed(1000);
  const Bytes plain(100000, std::byte{1});
  packed.resize(ZSTD_compress(packed.data(), packed.size(), plain.data(), plain.size(), 1));
  const std::string path = folder.write("core.zst", packed);
  const char* before = std::getenv("TMPDIR");
  const std::string restored = before == nullptr ? "" : before;
  ::setenv("TMPDIR", (folder.path() + "/missing").c_str(), 1);
  CHECK(kind_of_failure({.core_path = path}) == ErrorKind::kOutput);
  before == nullptr ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", restored.c_str(), 1);
}
