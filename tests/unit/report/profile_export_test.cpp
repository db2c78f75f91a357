#include "report/profile_export.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "base/error.h"
#include "report/reference_report.h"
#include "tests/unit/report/sample_stacks.h"

using namespace heapsnap;

namespace {

StackProfile small_profile() {
  StackProfile profile(StackProfile::Kind::kCallStacks);
  const uint32_t main = profile.child(0, {"main", "/src/a.cpp", 3, "/bin/a"});
  const uint32_t parse = profile.child(main, {"parse(char; int)", "", 0, "/bin/a"});
  profile.add(parse, 3, 10);
  profile.add(main, 1, 5);
  profile.add(parse, 1, 2);
  profile.add(parse, 0, 0);
  return profile;
}

SnapshotMetadata small_metadata() {
  SnapshotMetadata metadata;
  metadata.writer = "heapsnap 1";
  metadata.process.pid = 7;
  metadata.process.comm = "a";
  metadata.process.hostname = "h\"";
  metadata.process.page_size = 4096;
  metadata.process.rss = 8192;
  return metadata;
}

template <typename Export>
std::string text_of(Export write) {
  std::string text;
  Writer out(text);
  write(out);
  out.flush();
  return text;
}

// Of every format that is text.
std::map<std::string, std::string> all_texts_of(const SnapshotMetadata& metadata,
                                                const StackProfile& profile) {
  std::map<std::string, std::string> texts;
  texts["folded"] = text_of([&](Writer& out) { export_folded(profile, out); });
  texts["speedscope"] = text_of([&](Writer& out) { export_speedscope(metadata, profile, out); });
  texts["dhat"] = text_of([&](Writer& out) { export_dhat(metadata, profile, out); });
  export_heaptrack(metadata, profile,
                   [&texts](std::string_view piece) { texts["heaptrack"] += piece; });
  return texts;
}

// An escape and a backslash in a name, as all listings print them, once; in JSON its own escapes
// besides.
void check_escaped_once(const std::map<std::string, std::string>& texts, const std::string& front) {
  for (const auto& each : texts) {
    const std::string& format = each.first;
    const std::string& text = each.second;
    CAPTURE(format);
    CAPTURE(text);
    const bool is_json = format == "speedscope" || format == "dhat";
    CHECK(text.find(front + (is_json ? R"(\\x1b[1m\\\\)" : R"(\x1b[1m\\)")) != std::string::npos);
    CHECK(text.find('\x1b') == std::string::npos);
    CHECK(text.find("u001b") == std::string::npos);
  }
}

}  // namespace

TEST_CASE("names of the target are escaped once, in all formats alike") {
  SnapshotMetadata metadata = small_metadata();
  const std::string hostile = "x\x1b[1m\\";
  const RecordedStacks no_stacks;
  OwnerTree tree;
  tree.places = {{RootKind::kVariable, 0, "", "g_" + hostile, Address(0x4000), 8, 0}};
  tree.threads = {1};
  tree.nodes.resize(3);
  tree.nodes[1] = {.kind = OwnerNode::Kind::kPlace, .place = 0};
  tree.nodes[2] = {.kind = OwnerNode::Kind::kBlocks, .parent = 1, .type = 1, .own = {2, 96}};
  const ReferenceStreams references{tree.places, {{}, {"T_" + hostile, "", {}}}, {}, {}, {}};
  const ReferenceReportInput input{metadata, references, no_stacks, ""};
  const StackProfile owners = profile_of_owners(input, tree);
  check_escaped_once(all_texts_of(metadata, owners), "g_x");
  check_escaped_once(all_texts_of(metadata, owners), "T_x");

  test::SampleStacks sample;
  sample.metadata.process.hostname = hostile;
  CallStacks& stacks = sample.recorded.stacks;
  SourceFrames& symbols = sample.recorded.symbols;
  const SourceFrame frame[] = {{symbols.intern("f_" + hostile), 0, 0, 0, false}};
  symbols.add(0, stacks.nodes[stacks.sites[3].node].return_address, frame);
  symbols.sort();
  const StackProfile called =
      profile_of_stacks(sample.metadata, sample.recorded, sample.census, nullptr);
  check_escaped_once(all_texts_of(sample.metadata, called), "f_x");
}

TEST_CASE("a profile of owners has what no root leads to, be it leaked or garbage") {
  const SnapshotMetadata metadata = small_metadata();
  const RecordedStacks no_stacks;
  OwnerTree tree;
  tree.nodes.emplace_back();
  tree.children.emplace_back();
  tree.in_use = {6, 600};
  tree.leaked = {2, 200};
  tree.garbage = {4, 400};
  const ReferenceStreams references{{}, {}, {}, {}, {}};
  const StackProfile profile = profile_of_owners({metadata, references, no_stacks, ""}, tree);
  CHECK(profile.blocks() == tree.in_use.count);
  CHECK(profile.bytes() == tree.in_use.bytes);
  CHECK(text_of([&](Writer& out) { export_folded(profile, out); }) ==
        "leaked: no root leads to it 200\n"
        "garbage: freed by the next full garbage collection 400\n");
}

TEST_CASE("a profile has each frame, node and sample once") {
  const StackProfile profile = small_profile();
  CHECK(profile.frames().size() == 2);
  CHECK(profile.nodes().size() == 3);
  REQUIRE(profile.samples().size() == 2);
  CHECK(profile.samples()[0].bytes == 12);
  CHECK(profile.samples()[0].blocks == 4);
  CHECK(profile.bytes() == 17);
  CHECK(profile.blocks() == 5);
}

TEST_CASE("folded: one line a stack, whatever is in a name") {
  const std::string text = text_of([](Writer& out) { export_folded(small_profile(), out); });
  CHECK(text == "main;parse(char, int) 12\nmain 5\n");
}

TEST_CASE("speedscope: both profiles, outermost frame first") {
  const std::string text =
      text_of([](Writer& out) { export_speedscope(small_metadata(), small_profile(), out); });
  CHECK(text.find(R"({"name":"main","file":"/src/a.cpp","line":3})") != std::string::npos);
  CHECK(text.find(R"("unit":"bytes","startValue":0,"endValue":17,"samples":[[0,1],[0]],)"
                  R"("weights":[12,5])") != std::string::npos);
  CHECK(text.find(R"("unit":"none","startValue":0,"endValue":5,"samples":[[0,1],[0]],)"
                  R"("weights":[4,1])") != std::string::npos);
  CHECK(text.find(R"(h\")") != std::string::npos);
}

TEST_CASE("dhat: innermost frame first, frame 0 is the root") {
  const std::string text =
      text_of([](Writer& out) { export_dhat(small_metadata(), small_profile(), out); });
  CHECK(text.find(R"("tb":12,"mb":12,"gb":12,"eb":12,"tbk":4,"mbk":4,"gbk":4,"ebk":4,"tl":0,)"
                  R"("fs":[2,1])") != std::string::npos);
  CHECK(text.find(R"x("ftbl":["[root]","main (a.cpp:3)","parse(char; int)"])x") !=
        std::string::npos);
}

TEST_CASE("heaptrack: blocks of a stack add up to its bytes") {
  std::string text;
  export_heaptrack(small_metadata(), small_profile(),
                   [&text](std::string_view piece) { text += piece; });
  CHECK(text ==
        "v 10400 3\nX heapsnap 1: process 7 (a) on h\", bytes in use by call stack\nI 1000 0\n"
        "s 6 /bin/a\ns 4 main\ns a /src/a.cpp\ni 1 1 2 3 3\n"
        "s 10 parse(char; int)\ni 2 1 4 0 0\n"
        "t 1 0\nt 2 1\nc 0\n"
        "a 3 2\n+ 0\n+ 0\n+ 0\n+ 0\na 5 1\n+ 1\nR 2\nc 0\n");
}

TEST_CASE("heaptrack: more blocks than it could have lines are refused before a byte is written") {
  // Two of them, whose sum would wrap around.
  StackProfile profile(StackProfile::Kind::kCallStacks);
  profile.add(profile.child(0, {"main", "", 0, ""}), 1, 8);
  profile.add(profile.child(0, {"a", "", 0, ""}), uint64_t{1} << 63, 8);
  profile.add(profile.child(0, {"b", "", 0, ""}), uint64_t{1} << 63, 8);
  std::string text;
  try {
    export_heaptrack(small_metadata(), profile, [&text](std::string_view piece) { text += piece; });
    FAIL("it was written");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUnsupported);
    CHECK(!error.remedy().empty());
  }
  CHECK(text.empty());
}
