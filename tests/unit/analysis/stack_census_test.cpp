#include "analysis/stack_census.h"

#include <doctest/doctest.h>

#include "analysis/stack_groups.h"
#include "tracked_snapshot.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

// Three stacks: 2 and 3 recorded in full, 4 by samples each 1000 bytes.
CallStacks three_stacks() {
  CallStacks stacks;
  stacks.nodes.resize(tracker::kFirstNode);
  stacks.nodes.push_back({tracker::kRootComplete, 0, Address(0x100)});  // 8: main
  stacks.nodes.push_back({8, 0, Address(0x200)});                       // 9: parse
  stacks.nodes.push_back({9, 1, Address(0x300)});                       // 10: operator new
  stacks.nodes.push_back({8, 1, Address(0x300)});                       // 11: the same in main
  stacks.sites.resize(tracker::kFirstStack);
  stacks.sites.push_back({10, 3, 0, 10, 8, 1000, 800});
  stacks.sites.push_back({11, 2, 0, 100, 99, 3000, 2970});
  stacks.sites.push_back({9, 2, 1000, 256 * 7, 256 * 2, 7000, 2000});
  return stacks;
}

struct Tracked : TrackedSnapshot {
  Tracked() { stacks = three_stacks(); }
};

}  // namespace

TEST_CASE("blocks are added up by their stack, with the size that was asked for") {
  Tracked tracked;
  tracked.add(0x290, kUsed, 0, 0);  // the cache of a thread: malloc's own
  tracked.metadata.heap.thread_caches.push_back({42, Address(0x10010), 0, 0, 0});
  tracked.add(48, kUsed, 2, 3);
  tracked.add(64, kUsed, 2, 31);               // slack not known
  tracked.add(32, ChunkState::kTcache, 2, 0);  // free: whatever its slot says
  tracked.add(32, kUsed, 0, 0);                // before tracking
  tracked.add(32, kUsed, 99, 0);               // damaged
  tracked.add(48, ChunkState::kTop, 0, 0);
  MmappedChunk mapped{Address(0x70000000), Address(0x70000000), 0x40000, 0x40000, 0x3fff0};
  mapped.stack = 3;
  mapped.slack = 0;
  tracked.mmapped.push_back(mapped);
  const StackCensus census = take_stack_census(tracked.tracked_streams(), tracked.stacks);
  CHECK(census.stacks[2].blocks_found == 2);
  CHECK(census.stacks[2].live_bytes == 37 + 56);
  CHECK(census.stacks[3].live_bytes == 0x3fff0);
  CHECK(census.live_blocks == 3);
  CHECK(census.live_bytes == 93 + 0x3fff0);
  CHECK(census.without_stack == Tally{1, 24});
  CHECK(census.strange == Tally{1, 24});
}

TEST_CASE("samples are weighted") {
  Tracked tracked;
  for (int i = 0; i < 3; ++i) tracked.add(1008, kUsed, 4, 0);
  const StackCensus census = take_stack_census(tracked.tracked_streams(), tracked.stacks);
  CHECK(census.stacks[4].blocks_found == 3);
  CHECK(census.stacks[4].live_blocks == doctest::Approx(3 / (1 - 0.367879)));
  CHECK(census.stacks[4].live_bytes == doctest::Approx(3000 / (1 - 0.367879)));
}

TEST_CASE("blocks that sampling passed over are estimated, and no more than there are") {
  Tracked tracked;
  for (int i = 0; i < 3; ++i) tracked.add(1008, kUsed, 4, 0);
  tracked.add(48, kUsed, 2, 0);
  for (int i = 0; i < 4; ++i) tracked.add(1008, kUsed, 0, 0);
  // Of each 0.63 are sampled: 4.75 blocks, of which 3 were found.
  CHECK(take_stack_census(tracked.tracked_streams(), tracked.stacks).passed_over == Tally{2, 1746});
  tracked.chunks.resize(5);
  tracked.ids.resize(5);
  tracked.slacks.resize(5);
  CHECK(take_stack_census(tracked.tracked_streams(), tracked.stacks).passed_over == Tally{1, 1000});
  tracked.chunks.resize(4);
  tracked.ids.resize(4);
  tracked.slacks.resize(4);
  CHECK(take_stack_census(tracked.tracked_streams(), tracked.stacks).passed_over == Tally{});
}

TEST_CASE("sizes are counted for the stacks that are asked for, in bounded memory") {
  Tracked tracked;
  for (const uint64_t size : {48, 32, 48, 64, 48}) tracked.add(size, kUsed, 2, 8);
  tracked.add(80, kUsed, 3, 0);
  const SnapshotStreams streams = tracked.tracked_streams();
  const std::vector<uint32_t> wanted = {3, 2};
  const auto sizes = block_sizes(streams, wanted);
  REQUIRE(sizes.size() == 2);
  CHECK(sizes[0] == std::vector<SizeCount>{{72, 1}});
  CHECK(sizes[1] == std::vector<SizeCount>{{16, 1}, {32, 3}, {48, 1}});
  CHECK(by_power_of_two(sizes[1]) == std::vector<SizeCount>{{16, 1}, {32, 4}});
  const auto bounded = block_sizes(streams, wanted, 2);
  CHECK(bounded[1] == std::vector<SizeCount>{{16, 1}, {32, 4}});
  CHECK(bounded[0].empty());
}

TEST_CASE("stacks are ranked by each measure") {
  Tracked tracked;
  tracked.add(4096, kUsed, 2, 0);
  for (int i = 0; i < 3; ++i) tracked.add(48, kUsed, 3, 0);
  const StackCensus census = take_stack_census(tracked.tracked_streams(), tracked.stacks);
  const auto ranked = [&](StackOrder order, size_t limit) {
    return ranked_stacks(census, tracked.stacks, order, limit);
  };
  CHECK(ranked(StackOrder::kLiveBytes, 0) == std::vector<uint32_t>{2, 3});
  CHECK(ranked(StackOrder::kLiveBlocks, 1) == std::vector<uint32_t>{3});
  CHECK(ranked(StackOrder::kRate, 0) == std::vector<uint32_t>{3, 2, 4});
  CHECK(ranked(StackOrder::kChurn, 2) == std::vector<uint32_t>{4, 3});
}

TEST_CASE("where nothing that was recorded is in use, stacks are listed by what they churned") {
  Tracked tracked;
  StackCensus census = take_stack_census(tracked.tracked_streams(), tracked.stacks);
  for (const StackOrder live : {StackOrder::kLiveBytes, StackOrder::kLiveBlocks}) {
    for (AllocationSite& site : tracked.stacks.sites) site.allocated_bytes = site.freed_bytes = 0;
    CHECK(listing_order(census, tracked.stacks, live) == live);  // nothing was recorded at all
    tracked.stacks.sites[2].allocated_bytes = tracked.stacks.sites[2].freed_bytes = 4096;
    CHECK(listing_order(census, tracked.stacks, live) == StackOrder::kChurn);
  }
  CHECK(listing_order(census, tracked.stacks, StackOrder::kRate) == StackOrder::kRate);
  tracked.add(48, kUsed, 2, 3);
  census = take_stack_census(tracked.tracked_streams(), tracked.stacks);
  CHECK(listing_order(census, tracked.stacks, StackOrder::kLiveBytes) == StackOrder::kLiveBytes);
}

TEST_CASE("stacks are grouped by the innermost function that explains something") {
  Tracked tracked;
  tracked.add(1040, kUsed, 2, 0);
  tracked.add(528, kUsed, 3, 0);
  const StackCensus census = take_stack_census(tracked.tracked_streams(), tracked.stacks);
  RecordedStacks recorded;
  recorded.stacks = tracked.stacks;
  SourceFrames& symbols = recorded.symbols;
  const auto name = [&](int32_t module, uint64_t address, std::vector<std::string> functions) {
    std::vector<SourceFrame> frames;
    for (const std::string& one : functions)
      frames.push_back({symbols.intern(one), 0, 0, 0, false});
    symbols.add(module, Address(address), frames);
  };
  name(0, 0x100, {"main"});
  name(0, 0x200, {"std::vector<int>::push_back(int)", "parse(char const*)"});
  name(1, 0x300, {"operator new(unsigned long)"});
  symbols.sort();
  TrackerRecord tracker;
  tracker.modules.resize(2);
  tracker.modules[0].path = "/bin/program";
  tracker.modules[1].path = "/lib/libstdc++.so";

  const PassedFrames passed;
  auto groups = group_by_function(census, recorded, tracker, passed).groups;
  rank_groups(groups, StackOrder::kLiveBytes, 2);
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].name == "parse(char const*)");
  CHECK(groups[0].is_function);
  CHECK(groups[0].live_bytes == 1032);
  CHECK(groups[0].live_bytes_below == 1032);
  CHECK(groups[0].allocations == 17);  // sampled ones too
  CHECK(groups[1].name == "main");
  CHECK(groups[1].live_bytes == 520);
  CHECK(groups[1].live_bytes_below == 1552);

  auto modules = group_by_module(census, recorded, tracker, passed);
  rank_groups(modules, StackOrder::kLiveBytes, 0);
  REQUIRE(modules.size() == 2);
  CHECK(modules[0].name == "/bin/program");
  CHECK_FALSE(modules[0].is_function);
  CHECK(modules[0].live_bytes == 1552);
  CHECK(modules[1].live_bytes == 0);
  CHECK(modules[1].live_bytes_below == 1552);

  PassedFrames more;
  more.add("parse");
  groups = group_by_function(census, recorded, tracker, more).groups;
  rank_groups(groups, StackOrder::kLiveBytes, 1);
  CHECK(groups[0].name == "main");
  CHECK(groups[0].live_bytes == 1552);
}
