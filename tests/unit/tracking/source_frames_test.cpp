#include "tracking/source_frames.h"

#include <doctest/doctest.h>

using namespace heapsnap;

namespace {

void add_named(SourceFrames& symbols, int32_t module, uint64_t address,
               const std::vector<std::string>& functions) {
  std::vector<SourceFrame> frames;
  for (const std::string& function : functions) frames.push_back({symbols.intern(function)});
  symbols.add(module, Address(address), frames);
}

std::string names_at(const SourceFrames& symbols, int32_t module, uint64_t address) {
  std::string names;
  for (const SourceFrame& frame : symbols.at(module, Address(address))) {
    names += symbols.text(frame.function) + ";";
  }
  return names;
}

}  // namespace

TEST_CASE("names that are found later take the place of starts and of nothing, not of names") {
  SourceFrames known;
  add_named(known, 0, 0x10, {"git+0x8()"});
  add_named(known, 0, 0x20, {"parse"});
  add_named(known, 1, 0x10, {"libz.so.1+0x8()"});
  known.sort();
  SourceFrames found;
  add_named(found, 0, 0x10, {"inlined", "read_tree"});
  add_named(found, 0, 0x20, {"another"});
  add_named(found, 0, 0x30, {"main"});
  add_named(found, 1, 0x10, {"libz.so.1+0x8()"});
  found.sort();
  const SourceFrames all = with_names_of(known, found);
  CHECK(names_at(all, 0, 0x10) == "inlined;read_tree;");
  CHECK(names_at(all, 0, 0x20) == "parse;");
  CHECK(names_at(all, 0, 0x30) == "main;");
  CHECK(names_at(all, 1, 0x10) == "libz.so.1+0x8();");
  CHECK(all.places().size() == 4);
  CHECK(with_names_of({}, {}).is_empty());
}
