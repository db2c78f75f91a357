#include "analysis/stack_groups.h"

#include <doctest/doctest.h>

#include "analysis/unnamed_share.h"
#include "named_stacks.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

FunctionGroups groups_of(const NamedStacks& stacks, const PassedFrames& passed = {}) {
  FunctionGroups result = group_by_function(stacks.census, stacks.recorded, stacks.tracker, passed);
  rank_groups(result.groups, StackOrder::kLiveBytes, 0);
  return result;
}

std::string function(int number) {
  return "git+0x" + std::to_string(100 + number) + "()";
}

}  // namespace

TEST_CASE("what is passed over altogether is charged to what is nearest to the program") {
  NamedStacks stacks;
  stacks.add(100, {"operator new(unsigned long)", "std::vector<Node>::push_back(Node&&)",
                   "start_thread", "clone3"});
  stacks.add(50, {"_dl_init", "_dl_start_user"});
  // The same on a stripped C library.
  stacks.add(40, {"operator new(unsigned long)", "std::vector<Page>::push_back(Page&&)",
                  "libc.so.6+0x88ef0()", "libc.so.6+0x1098c0()"});
  stacks.add(20, {});
  stacks.add(10, {"malloc", "", "main"});
  const auto groups = groups_of(stacks).groups;
  CHECK(groups[0].name == "std::vector<Node>::push_back(Node&&)");
  CHECK(groups[0].live_bytes == 100);
  CHECK(groups[1].name == "_dl_init");
  CHECK(groups[2].name == "std::vector<Page>::push_back(Page&&)");
  CHECK(groups[3].name == "no call stack");
  CHECK(groups[4].name == "functions without a name in /usr/bin/git");
  CHECK_FALSE(groups[4].is_function);
}

TEST_CASE("a function without a name that allocates for many others is passed over") {
  NamedStacks stacks;
  for (int i = 0; i < 10; ++i) {
    // Of one size for many, and of many sizes for one.
    stacks.add(16, {"malloc", "git+0x50()", function(i), "main"});
    stacks.add(100 + static_cast<uint64_t>(i), {"malloc", "git+0x60()", "git+0x61()", "main"});
    stacks.add(1000 + static_cast<uint64_t>(i), {"malloc", "git+0x70()", function(i), "main"});
  }
  const FunctionGroups all = groups_of(stacks);
  REQUIRE(all.passed.size() == 1);
  CHECK(all.passed[0].name == "git+0x70()");
  CHECK(all.passed[0].callers == 10);
  CHECK_FALSE(all.suspect);
  double charged = 0;
  for (const StackGroup& group : all.groups) {
    if (group.name == "git+0x50()") CHECK(group.live_bytes == 160);
    if (group.name == "git+0x60()") CHECK(group.live_bytes == 1045);
    if (group.name == "git+0x70()") {
      CHECK(group.live_bytes == 0);
      CHECK(group.live_bytes_below == 10045);
    }
    if (group.name == function(3)) CHECK(group.live_bytes == 1003);
    charged += group.live_bytes;
  }
  CHECK(charged == stacks.census.live_bytes);

  PassedFrames kept;
  kept.add("!git+0x70");
  CHECK(groups_of(stacks, kept).passed.empty());
  CHECK(groups_of(stacks, kept).groups[0].name == "git+0x70()");
}

TEST_CASE("so is what only such functions call, and what calls such a function") {
  NamedStacks stacks;
  for (int i = 0; i < 10; ++i) {
    const auto size = static_cast<uint64_t>(1000 + i);
    stacks.add(size, {"git+0x50()", i % 2 == 0 ? "git+0x51()" : "git+0x52()", function(i), "main"});
  }
  const FunctionGroups all = groups_of(stacks);
  REQUIRE(all.passed.size() == 1);
  CHECK(all.passed[0].name == "git+0x50()");
  CHECK(all.passed[0].callers == 10);
}

TEST_CASE("a function that allocates by others too is no way to malloc") {
  NamedStacks stacks;
  for (int i = 0; i < 10; ++i) {
    stacks.add(1000 + static_cast<uint64_t>(i), {"git+0x50()", function(i), "main"});
  }
  stacks.add(10, {"git+0x77()", "git+0x50()", "main"});
  CHECK(groups_of(stacks).passed.size() == 1);  // once is seldom
  stacks.add(20, {"git+0x77()", "git+0x50()", "main"});
  CHECK(groups_of(stacks).passed.empty());
}

TEST_CASE("one with a name is pointed out, and charged") {
  NamedStacks stacks;
  for (int i = 0; i < 10; ++i) {
    stacks.add(1000 + static_cast<uint64_t>(i), {"pool_get", "f" + std::to_string(i), "main"});
  }
  const FunctionGroups all = groups_of(stacks);
  CHECK(all.passed.empty());
  REQUIRE(all.suspect);
  CHECK(all.suspect->name == "pool_get");
  CHECK(all.suspect->callers == 10);
  CHECK(all.groups[0].name == "pool_get");
  stacks.add(20000, {"other", "main"});
  CHECK_FALSE(groups_of(stacks).suspect);
}

TEST_CASE("how much is charged to functions without a name, and where most of them are") {
  NamedStacks stacks;
  stacks.add(300, {"malloc", "git+0x70()", "main"});
  stacks.add(200, {"malloc", "git+0x80()", "main"});
  stacks.add(400, {"malloc", "libz.so.1+0x10()", "main"});
  stacks.add(100, {"malloc", "parse", "git+0x70()"});
  const UnnamedShare unnamed = unnamed_share(groups_of(stacks));
  CHECK(unnamed.share == doctest::Approx(0.9));
  CHECK(unnamed.module == "git");

  NamedStacks named;
  named.add(100, {"malloc", "parse", "main"});
  CHECK(unnamed_share(groups_of(named)).share == 0);
  CHECK(unnamed_share(groups_of(named)).module.empty());
  CHECK(unnamed_share({}).share == 0);
}
