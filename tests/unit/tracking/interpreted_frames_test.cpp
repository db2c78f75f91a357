#include "tracking/interpreted_frames.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/unit/tracking/synthetic_tracker.h"
#include "tracking/call_stacks.h"
#include "tracking/source_frames.h"
#include "tracking/tracking_reader.h"

using namespace heapsnap;

namespace {

constexpr uint64_t kLoop = 0x5000;
constexpr AddressRange kLoopCode{Address(kLoop), Address(kLoop + 0x100)};
constexpr uint64_t kCalledByLoop = kLoop + 0x10;

uint64_t frame(uint32_t function, uint32_t instruction = 0, bool is_entry = false) {
  return tracker::kInterpreterFrame | (is_entry ? tracker::kInterpreterEntry : 0) |
         static_cast<uint64_t>(function) << tracker::kFunctionShift | instruction;
}
uint64_t entry(uint32_t function) {
  return frame(function, 0, true);
}

CallStacks stacks_of(const std::vector<std::vector<uint64_t>>& outermost_first) {
  CallStacks stacks;
  stacks.nodes.resize(tracker::kFirstNode);
  stacks.sites.resize(tracker::kFirstStack);
  for (const std::vector<uint64_t>& path : outermost_first) {
    uint32_t node = tracker::kRootComplete;
    for (const uint64_t value : path) {
      stacks.nodes.push_back({node, -1, Address(value)});
      node = static_cast<uint32_t>(stacks.nodes.size() - 1);
    }
    stacks.sites.push_back({node, static_cast<uint32_t>(path.size())});
  }
  return stacks;
}

// Outermost first.
std::vector<uint64_t> path_of(const CallStacks& stacks, size_t site) {
  std::vector<uint64_t> path;
  const StackEnd end = stacks.walk(stacks.sites[site].node, [&](uint32_t node) {
    path.insert(path.begin(), stacks.nodes[node].return_address.value());
  });
  CHECK(end == StackEnd::kComplete);
  CHECK(stacks.sites[site].depth == path.size());
  return path;
}

std::vector<uint64_t> merged(const std::vector<uint64_t>& path, AddressRange loop = kLoopCode) {
  CallStacks stacks = stacks_of({path});
  merge_interpreted_frames(stacks, loop);
  return path_of(stacks, tracker::kFirstStack);
}

}  // namespace

TEST_CASE("frames of an interpreter take the place of the loop that runs them") {
  // main > handle, which sorts, which calls key.
  CHECK(merged({0x100, kCalledByLoop, 0x200, kCalledByLoop, 0x300, entry(2), frame(3), entry(4)}) ==
        std::vector<uint64_t>{0x100, frame(2), frame(3), 0x200, frame(4), 0x300});
  // Behind the loop's last call, where the return address is that of the next function.
  CHECK(merged({0x100, kLoop + 0x100, 0x300, entry(2)}) ==
        std::vector<uint64_t>{0x100, frame(2), 0x300});
  CHECK(merged({0x100, kLoop, 0x300, entry(2)}) ==
        std::vector<uint64_t>{frame(2), 0x100, kLoop, 0x300});
}

TEST_CASE("frames and loops that do not go together") {
  // A loop that has not begun its first frame, or has left its last one.
  CHECK(merged({kCalledByLoop, 0x200, kCalledByLoop, 0x300, entry(2)}) ==
        std::vector<uint64_t>{kCalledByLoop, 0x200, frame(2), 0x300});
  // Native frames that were not kept, and the loop in code that is not known as such.
  CHECK(merged({0x200, kCalledByLoop, 0x300, entry(2), frame(3), entry(4)}) ==
        std::vector<uint64_t>{frame(2), frame(3), 0x200, frame(4), 0x300});
  CHECK(merged({0x100, 0x300, entry(2), frame(3)}, {}) ==
        std::vector<uint64_t>{frame(2), frame(3), 0x100, 0x300});
  // More frames than were kept: the outermost one says so, and ends at no entry.
  CHECK(merged({0x100, kCalledByLoop, 0x300, frame(tracker::kMoreFunctions), frame(3)}) ==
        std::vector<uint64_t>{0x100, frame(tracker::kMoreFunctions), frame(3), 0x300});
  CHECK(merged({frame(2), frame(3)}) == std::vector<uint64_t>{frame(2), frame(3)});
}

TEST_CASE("stacks without such frames stay as they are") {
  CallStacks stacks = stacks_of({{0x100, kCalledByLoop, 0x300}, {0x100, kCalledByLoop, entry(2)}});
  const std::vector<uint64_t> before = path_of(stacks, 2);
  merge_interpreted_frames(stacks, kLoopCode);
  CHECK(path_of(stacks, 2) == before);
  CHECK(path_of(stacks, 3) == std::vector<uint64_t>{0x100, frame(2)});
  // No node that no stack has.
  CHECK(stacks.nodes.size() == tracker::kFirstNode + 5);
  for (size_t i = tracker::kFirstNode; i < stacks.nodes.size(); ++i) {
    CHECK(stacks.nodes[i].parent < i);
  }
  CallStacks native = stacks_of({{0x100, 0x200}});
  const std::vector<CallNode> nodes = native.nodes;
  merge_interpreted_frames(native, kLoopCode);
  CHECK(native.nodes == nodes);
}

TEST_CASE("equal merged paths are one") {
  CallStacks stacks = stacks_of({{0x100, kCalledByLoop, 0x300, entry(2)},
                                 {0x100, kCalledByLoop, 0x300, entry(2)},
                                 {0x100, kCalledByLoop, 0x400, entry(2)}});
  merge_interpreted_frames(stacks, kLoopCode);
  CHECK(stacks.sites[2].node == stacks.sites[3].node);
  CHECK(stacks.nodes.size() == tracker::kFirstNode + 4);
}

TEST_CASE("parents that make no sense") {
  CallStacks stacks;
  stacks.nodes.resize(tracker::kFirstNode + 2);
  stacks.nodes[tracker::kFirstNode] = {tracker::kFirstNode + 1, -1, Address(frame(2))};
  stacks.nodes[tracker::kFirstNode + 1] = {7, -1, Address(frame(3))};
  stacks.sites.resize(4);
  stacks.sites[2].node = tracker::kFirstNode;
  stacks.sites[3].node = 4'000'000'000;
  merge_interpreted_frames(stacks, {Address(9), Address(3)});
  for (const AllocationSite& site : stacks.sites) {
    stacks.walk(site.node, [&](uint32_t node) { CHECK(node < stacks.nodes.size()); });
  }
}

TEST_CASE("names of functions come from the tracker's copies") {
  SyntheticTracker made;
  const std::string ascii = "Shop.handle";
  const std::u16string wide = u"größe_Ω";
  const uint32_t first = tracker::kFirstFunction;
  made.function({.name = {made.text(ascii.data(), ascii.size()), 11, 1},
                 .file = made.copied("/app/app.py"),
                 // Two instructions of the first line, then two of the next one (PEP 626, 3.11).
                 .lines = made.copied(std::string("\xe9\x00\xe9\x02", 4)),
                 .first_line = 12});
  made.function({.name = {made.text(wide.data(), wide.size() * 2), 14, 2},
                 .file = {made.text("\xe9.py", 4), 4, 1},
                 .first_line = 7});
  made.function({.name = {0x10, 500, 1}, .first_line = 1});      // cannot be read
  made.function({.name = {made.text("abc", 3), 3, 3}});          // of no width
  made.function({.name = {made.text("abc\0def", 7), 7, 1}});     // ends early
  made.function({.name = {made.text("\x00\xd8y\0", 4), 4, 2}});  // half of a character
  made.directory.interpreter.kind = tracker::kInterpreterPython;
  const auto stack = [&](uint64_t value) {
    made.stack({made.node(tracker::kRootComplete, tracker::kNoModule, value), 1, 0, 1, 0, 1, 0});
  };
  const std::vector<uint64_t> frames = {frame(first, 0),
                                        frame(first, 5),
                                        frame(first, 4000),
                                        frame(first + 1, 2),
                                        frame(first + 2),
                                        frame(first + 3),
                                        frame(first + 4),
                                        frame(first + 5),
                                        frame(tracker::kMoreFunctions),
                                        frame(tracker::kUnknownFunction),
                                        frame(1'000'000'000)};
  for (const uint64_t value : frames) stack(value);
  made.finish();
  const Tracking all = read_tracking(made.target.memory(), made.directory_address(), 0);
  SourceFrames names;
  name_interpreted_frames(all.stacks, names);
  names.sort();
  const auto shown = [&](uint64_t value) {
    const auto found = names.at(-1, Address(value));
    REQUIRE(found.size() == 1);
    CHECK(found[0].language == FrameLanguage::kPython);
    return names.text(found[0].function) + " " + names.text(found[0].file) + ":" +
           std::to_string(found[0].line);
  };
  const std::vector<std::string> expected = {"Shop.handle /app/app.py:12",
                                             "Shop.handle /app/app.py:13",
                                             "Shop.handle /app/app.py:0",
                                             "größe_Ω é.py:0",
                                             "(unknown function) :0",
                                             "(unknown function) :0",
                                             "abc :0",
                                             "(unknown function) :0",
                                             "(more frames of the interpreter) :0",
                                             "(unknown function) :0",
                                             "(unknown function) :0"};
  for (size_t i = 0; i < frames.size(); ++i) CHECK(shown(frames[i]) == expected[i]);
}

TEST_CASE("what is said of an interpreter that was not found, or not read") {
  SyntheticTracker made;
  made.directory.takes_interpreter_frames = 1;
  made.directory.unread_interpreters = 3;
  made.finish();
  const Tracking all = read_tracking(made.target.memory(), made.directory_address(), 0);
  REQUIRE(all.record.notes.size() == 2);
  CHECK(all.record.notes[0].find("none has been found") != std::string::npos);
  CHECK(all.record.notes[1].find("at 3 allocations") != std::string::npos);
}
