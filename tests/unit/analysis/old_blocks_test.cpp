#include "analysis/old_blocks.h"

#include <doctest/doctest.h>

#include "tests/unit/analysis/tracked_snapshot.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

enum Stack : uint32_t {
  kBuild = tracker::kFirstStack,
  kBuildToo,
  kParse,
  kNameless,
  kOtherNameless
};

// Stacks of build(), twice, through operator new; of parse(); and of two places without a name.
struct Program : TrackedSnapshot {
  RecordedStacks recorded;
  PassedFrames passed;

  Program() {
    metadata.tracker.emplace();
    CallStacks& all = recorded.stacks;
    all.nodes.resize(tracker::kFirstNode);
    const auto node = [&](uint32_t parent, std::vector<std::string> functions) {
      const Address address(0x1000 + all.nodes.size() * 0x10);
      std::vector<SourceFrame> frames;
      for (const std::string& one : functions) {
        frames.push_back({recorded.symbols.intern(one), 0, 0, 0, false});
      }
      if (!frames.empty()) recorded.symbols.add(0, address, frames);
      all.nodes.push_back({parent, 0, address});
      return static_cast<uint32_t>(all.nodes.size() - 1);
    };
    const uint32_t main_node = node(tracker::kRootComplete, {"main"});
    all.sites.resize(tracker::kFirstStack);
    const auto site = [&](uint32_t node) { all.sites.push_back({node, 3, 0, 1000, 0, 0, 0}); };
    site(node(node(main_node, {"build(int)"}), {"operator new(unsigned long)"}));
    site(node(main_node, {"std::vector<int>::push_back(int)", "build(int)"}));
    site(node(main_node, {"parse(char const*)"}));
    site(node(main_node, {}));
    site(node(main_node, {}));
    recorded.symbols.sort();
  }

  void add_many(size_t count, uint64_t size, uint32_t stack) {
    for (size_t i = 0; i < count; ++i) add(size, kUsed, stack, 0);
  }
  std::vector<OldBlocks> found(size_t most = 5) {
    return attribute_old_blocks(tracked_streams(), recorded, passed, most);
  }
};

}  // namespace

TEST_CASE("old blocks of a size that one function alone allocates are probably its") {
  Program program;
  program.add_many(5000, 352, 0);
  program.add_many(60, 352, kBuild);
  program.add_many(40, 352, kBuildToo);
  program.add_many(500, 48, kParse);  // another size
  const auto found = program.found();
  REQUIRE(found.size() == 1);
  CHECK(found[0].size == 352);
  CHECK(found[0].old == Tally{5000, 5000 * 352});
  CHECK(found[0].newer == 100);
  CHECK((found[0].stack == kBuild || found[0].stack == kBuildToo));
}

TEST_CASE("nothing is concluded") {
  Program program;
  program.add_many(5000, 352, 0);
  SUBCASE("from too few newer blocks") {
    program.add_many(kEnoughNewerBlocks - 1, 352, kBuild);
  }
  SUBCASE("from few newer blocks for so many old ones") {
    program.add_many(100 * kMostOldToNewer, 352, 0);
    program.add_many(100, 352, kBuild);
  }
  SUBCASE("where two functions allocate the size") {
    program.add_many(5000, 352, kBuild);
    program.add_many(1, 352, kParse);
  }
  SUBCASE("where another function frees blocks of the size") {
    program.add_many(5000, 352, kBuild);
    AllocationSite& site = program.recorded.stacks.sites[kParse];
    site.frees = 100;
    site.freed_bytes = 100 * 340;  // in chunks of 352
  }
  SUBCASE("where only a way to malloc is known") {
    program.passed.add("parse");
    program.passed.add("main");
    program.add_many(200, 352, kParse);
  }
  SUBCASE("where two places without a name allocate it") {
    program.add_many(200, 352, kNameless);
    program.add_many(200, 352, kOtherNameless);
  }
  SUBCASE("where a block was recorded without a stack") {
    program.add_many(200, 352, kBuild);
    program.add_many(1, 352, tracker::kStackNotTaken);
  }
  SUBCASE("where a stack is not in the tables") {
    program.add_many(200, 352, kBuild);
    program.add_many(1, 352, 12345);
  }
  SUBCASE("from samples, which pass blocks over") {
    program.add_many(200, 352, kBuild);
    program.metadata.tracker->sample_bytes = 4096;
  }
  SUBCASE("where samples were taken before") {
    program.add_many(200, 352, kBuild);
    program.recorded.stacks.sites[kParse].sample_bytes = 4096;
  }
  SUBCASE("where new blocks were not recorded") {
    program.add_many(200, 352, kBuild);
    program.metadata.tracker->limit_reached_ns = 1;
  }
  SUBCASE("where blocks were dropped") {
    program.add_many(200, 352, kBuild);
    program.metadata.tracker->dropped_slots = 1;
  }
  CHECK(program.found().empty());
}

TEST_CASE("one place without a name is a place, and so is one that frees other sizes") {
  Program program;
  program.add_many(5000, 352, 0);
  program.add_many(200, 352, kNameless);
  AllocationSite& site = program.recorded.stacks.sites[kParse];
  site.frees = 100;
  site.freed_bytes = 100 * 345;  // in chunks of 368
  REQUIRE(program.found().size() == 1);
  CHECK(program.found()[0].stack == kNameless);
}

TEST_CASE("few old blocks do not matter, and most bytes come first") {
  Program program;
  program.add_many(5000, 352, 0);
  program.add_many(kEnoughOldBlocks - 1, 480, 0);  // too few
  program.add_many(400, 32, 0);                    // less than 1 % of the bytes
  program.add_many(3000, 1040, 0);
  for (const uint64_t size : {352, 480, 32, 1040}) program.add_many(100, size, kBuild);
  const auto found = program.found();
  REQUIRE(found.size() == 2);
  CHECK(found[0].size == 1040);
  CHECK(found[1].size == 352);
  CHECK(program.found(1).size() == 1);
}

TEST_CASE("functions that are passed over leave the conclusion to their callers") {
  Program program;
  program.add_many(5000, 352, 0);
  program.add_many(200, 352, kBuild);
  program.add_many(200, 352, kParse);
  CHECK(program.found().empty());
  // Both are called by main.
  program.passed.add("build");
  program.passed.add("parse");
  CHECK(program.found().size() == 1);
}
