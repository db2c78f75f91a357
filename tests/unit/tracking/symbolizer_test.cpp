#include "tracking/symbolizer.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "elf/elf_image.h"
#include "tests/unit/temporary_folder.h"
#include "tests/unit/tracking/code_fixture.h"
#include "tracking/demangle.h"
#include "tracking/function_name.h"
#include "tracking/module_symbols.h"

using namespace heapsnap;

namespace {

constexpr const char* kSelf = "/proc/self/exe";

// Of this program.
uint64_t own_bias() {
  uint64_t bias = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        *static_cast<uint64_t*>(to) = info->dlpi_addr;
        return 1;
      },
      &bias);
  return bias;
}

std::optional<MappedFile> open_path(const std::string& path) {
  try {
    return MappedFile::open(path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// One stack of these return addresses, innermost first.
CallStacks stack_of(const std::vector<const void*>& addresses) {
  CallStacks stacks;
  stacks.nodes.resize(tracker::kFirstNode);
  stacks.sites.resize(tracker::kFirstStack);
  uint32_t parent = tracker::kRootComplete;
  for (auto at = addresses.rbegin(); at != addresses.rend(); ++at) {
    stacks.nodes.push_back({parent, 0, Address(reinterpret_cast<uint64_t>(*at))});
    parent = static_cast<uint32_t>(stacks.nodes.size() - 1);
  }
  stacks.sites.push_back({parent, static_cast<uint32_t>(addresses.size()), 0, 1, 0, 1, 0});
  return stacks;
}

SourceFrames names_of(CallStacks& stacks, const std::string& file, uint64_t bias = own_bias()) {
  TrackedModule module;
  module.path = file;
  module.bias = bias;
  return symbolize(stacks, {module}, DebugFileSearch(),
                   [&](const TrackedModule& wanted) { return open_path(wanted.path); });
}

struct Named {
  std::string function, file;
  unsigned line;
  bool is_inlined;
  bool operator==(const Named&) const = default;
};

std::vector<Named> frames_at(const SourceFrames& symbols, const void* address) {
  std::vector<Named> frames;
  for (const SourceFrame& frame : symbols.at(0, Address(reinterpret_cast<uint64_t>(address)))) {
    const std::string& file = symbols.text(frame.file);
    frames.push_back({symbols.text(frame.function), file.substr(file.rfind('/') + 1), frame.line,
                      frame.is_inlined});
  }
  return frames;
}

// g++ gives a function of internal linkage no linkage name, so the scopes around it are its name.
#ifdef __clang__
#define LOCAL_FUNCTION(name) "fixture::(anonymous namespace)::" name "()"
#else
#define LOCAL_FUNCTION(name) "fixture::(anonymous namespace)::" name
#endif

const std::vector<Named> kInlinedFrames = {
    {LOCAL_FUNCTION("inner"), "code_fixture.cpp", fixture::kInnerLine, true},
    {LOCAL_FUNCTION("outer"), "code_fixture.cpp", fixture::kOuterLine, true},
    {"fixture::inlined_call()", "code_fixture.cpp", fixture::kInlinedLine, false},
};

}  // namespace

TEST_CASE("a return address has its function, file and line, and the inlined ones too") {
  const void* const plain = fixture::plain_call();
  const void* const inlined = fixture::inlined_call();
  CallStacks stacks = stack_of({plain, inlined});
  const SourceFrames symbols = names_of(stacks, kSelf);
  CHECK(frames_at(symbols, plain) ==
        std::vector<Named>{
            {"fixture::plain_call()", "code_fixture.cpp", fixture::kPlainLine, false}});
  const auto found = frames_at(symbols, inlined);
  REQUIRE(found.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(found[i].function == kInlinedFrames[i].function);
    CHECK(found[i] == kInlinedFrames[i]);
  }
  const auto offset =
      reinterpret_cast<uint64_t>(plain) - reinterpret_cast<uint64_t>(&fixture::plain_call);
  CHECK(symbols.at(0, Address(reinterpret_cast<uint64_t>(plain)))[0].offset == offset);
}

TEST_CASE("a function is told by its symbol, without what is inlined") {
  ModuleSymbols own(ElfImage::from_file(MappedFile::open(kSelf), kSelf), std::nullopt, "self");
  const auto address_of = [](const void* code) {
    return reinterpret_cast<uint64_t>(code) - own_bias();
  };
  CHECK(own.function_at(address_of(fixture::inlined_call())) == "fixture::inlined_call()");
  CHECK(own.function_at(address_of(fixture::plain_call())) == "fixture::plain_call()");
  CHECK(own.function_at(1) == "");
}

TEST_CASE("separate debug files and symbol tables stand in") {
  const test::TemporaryFolder folder;
  const std::string stripped = folder.path() + "/stripped";
  const std::string only_symbols = folder.path() + "/symbols";
  const std::string debug = folder.path() + "/stripped.debug";
  const std::string self = OBJCOPY_SOURCE;
  const auto run = [](const std::string& command) { return std::system(command.c_str()) == 0; };
  REQUIRE(run("objcopy --only-keep-debug " + self + " " + debug));
  REQUIRE(run("objcopy --strip-all --add-gnu-debuglink=" + debug + " " + self + " " + stripped));
  REQUIRE(run("objcopy --strip-debug " + self + " " + only_symbols));

  const void* const inlined = fixture::inlined_call();
  CallStacks stacks = stack_of({inlined});
  CHECK(frames_at(names_of(stacks, stripped), inlined) == kInlinedFrames);
  const auto by_symbol = frames_at(names_of(stacks, only_symbols), inlined);
  REQUIRE(by_symbol.size() == 1);
  CHECK(by_symbol[0].function == "fixture::inlined_call()");
  CHECK(by_symbol[0].line == 0);
  CHECK(names_of(stacks, "/nonexistent").is_empty());
  CHECK(names_of(stacks, "/etc/passwd").is_empty());
}

TEST_CASE("a file with another build-id is not used") {
  const void* const plain = fixture::plain_call();
  TrackedModule module;
  module.path = kSelf;
  module.bias = own_bias();
  module.build_id = "0123";
  CallStacks stacks = stack_of({plain});
  const SourceFrames symbols =
      symbolize(stacks, {module}, DebugFileSearch(),
                [&](const TrackedModule& wanted) { return open_path(wanted.path); });
  CHECK(symbols.is_empty());
}

TEST_CASE("functions of a stripped program are named by their begin, never by another one") {
  const test::TemporaryFolder folder;
  const std::string self = OBJCOPY_SOURCE;
  const std::string stripped = folder.path() + "/stripped";
  const std::string one_symbol = folder.path() + "/one";
  const auto run = [](const std::string& command) { return std::system(command.c_str()) == 0; };
  REQUIRE(run("objcopy --strip-all " + self + " " + stripped));
  REQUIRE(run("objcopy --strip-all --keep-symbol=_ZN7fixture10plain_callEv " + self + " " +
              one_symbol));
  const void* const plain = fixture::plain_call();
  const void* const inlined = fixture::inlined_call();
  CallStacks stacks = stack_of({plain, inlined});
  const auto start_of = [](auto* function) {
    return reinterpret_cast<uint64_t>(function) - own_bias();
  };

  const SourceFrames without = names_of(stacks, stripped);
  for (const auto& [address, function] : {std::pair(plain, start_of(&fixture::plain_call)),
                                          std::pair(inlined, start_of(&fixture::inlined_call))}) {
    const auto frames = frames_at(without, address);
    REQUIRE(frames.size() == 1);
    CHECK(frames[0].function == name_of_start("stripped", function));
    CHECK(without.at(0, Address(reinterpret_cast<uint64_t>(address)))[0].offset ==
          reinterpret_cast<uint64_t>(address) - own_bias() - function);
  }
  const SourceFrames with_one = names_of(stacks, one_symbol);
  CHECK(frames_at(with_one, plain)[0].function == "fixture::plain_call()");
  CHECK(frames_at(with_one, inlined)[0].function ==
        name_of_start("one", start_of(&fixture::inlined_call)));
}

TEST_CASE("a stack that ends where processes and threads begin is complete") {
  const auto end_after = [](const std::string& file, uint64_t address, uint32_t root) {
    CallStacks stacks = stack_of({reinterpret_cast<const void*>(address)});
    stacks.nodes.back().parent = root;
    names_of(stacks, file, 0);
    return static_cast<StackEnd>(stacks.nodes.back().parent);
  };
  const auto image_of = [](const std::string& path) {
    return ElfImage::from_file(MappedFile::open(path), path);
  };
  const auto file_of = [](const char* symbol) {
    Dl_info info = {};
    REQUIRE(dladdr(dlsym(RTLD_DEFAULT, symbol), &info) != 0);
    return std::string(info.dli_fname);
  };
  // ld.so's own start code has no unwind information.
  const std::string loader = file_of("__tls_get_addr");
  const uint64_t start = image_of(loader).entry() + 9;
  CHECK(end_after(loader, start, tracker::kRootNoUnwindInfo) == StackEnd::kComplete);
  CHECK(end_after(loader, start, tracker::kRootBadFrame) == StackEnd::kComplete);
  CHECK(end_after(loader, start, tracker::kRootDepthLimit) == StackEnd::kDepthLimit);
  CHECK(end_after(OBJCOPY_SOURCE, image_of(OBJCOPY_SOURCE).entry() + 9,
                  tracker::kRootNoUnwindInfo) == StackEnd::kComplete);

  const std::string libc = file_of("malloc_trim");
  const auto libc_image = image_of(libc);
  const ElfSymbol* const clone = libc_image.find_symbol("clone");
  const ElfSymbol* const other = libc_image.find_symbol("malloc_trim");
  REQUIRE(clone != nullptr);
  REQUIRE(other != nullptr);
  CHECK(end_after(libc, clone->value + clone->size - 1, tracker::kRootNoUnwindInfo) ==
        StackEnd::kComplete);
  CHECK(end_after(libc, other->value + 9, tracker::kRootNoUnwindInfo) == StackEnd::kNoUnwindInfo);
  CHECK(end_after("/nonexistent", start, tracker::kRootNoUnwindInfo) == StackEnd::kNoUnwindInfo);
}

TEST_CASE("names are demangled, and others left alone") {
  CHECK(demangled("_ZN3foo3barEi") == "foo::bar(int)");
  CHECK(demangled("main") == "main");
  CHECK(demangled("_Znope") == "_Znope");
  CHECK(demangled(("_Z" + std::string(10'000, 'N')).c_str()).size() == 4096);
}

TEST_CASE("a text is stored once") {
  SourceFrames symbols;
  CHECK(symbols.intern("") == 0);
  const uint32_t index = symbols.intern("a");
  CHECK(symbols.intern("b") != index);
  CHECK(symbols.intern("a") == index);
  const SourceFrame frame{index, 0, 3, 4, false};
  symbols.add(1, Address(7), {&frame, 1});
  symbols.add(0, Address(7), {});
  symbols.sort();
  CHECK(symbols.at(0, Address(7)).empty());
  REQUIRE(symbols.at(1, Address(7)).size() == 1);
  CHECK(symbols.at(1, Address(7))[0] == frame);
}
