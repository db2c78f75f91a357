// The call stacks of a small tracked process, for the printers to print.
#pragma once

#include "report/stack_report_input.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/metadata.h"

namespace heapsnap::test {

// Two stacks: 2 is make_node (with an inlined function) in main, 3 is of no known function.
struct SampleStacks {
  SnapshotMetadata metadata;
  RecordedStacks recorded;
  StackCensus census;

  SampleStacks() {
    metadata.process.pid = 42;
    metadata.process.comm = "tree\x1b[2J";
    TrackerRecord tracker;
    tracker.recording = true;
    tracker.recorded_ns = 2'000'000'000;
    tracker.modules.push_back(
        {"/opt/tree", "ab", 0x400000, {Address(0x400000), Address(0x500000)}, 1, 0});
    metadata.tracker = tracker;
    CallStacks& stacks = recorded.stacks;
    stacks.nodes.resize(tracker::kFirstNode);
    stacks.nodes.push_back({tracker::kRootComplete, 0, Address(0x40117b)});
    stacks.nodes.push_back({8, 0, Address(0x401136)});
    stacks.nodes.push_back({tracker::kRootNoUnwindInfo, -1, Address(0x7f0000001234)});
    stacks.nodes.push_back({10, 0, Address(0x402222)});
    stacks.sites.resize(tracker::kFirstStack);
    stacks.sites.push_back({9, 2, 0, 90, 26, 9000, 2600});
    stacks.sites.push_back({11, 2, 0, 1, 0, 100, 0});
    SourceFrames& symbols = recorded.symbols;
    const SourceFrame in_main[] = {
        {symbols.intern("main\x1b[31m"), symbols.intern("/src/tree.c"), 40, 0x2b, false}};
    const SourceFrame in_node[] = {
        {symbols.intern("fill(Node*)"), symbols.intern("/src/node.h"), 7, 0, true},
        {symbols.intern("make_node(int)"), symbols.intern("/src/tree.c"), 12, 0x16, false}};
    symbols.add(0, Address(0x40117b), in_main);
    symbols.add(0, Address(0x401136), in_node);
    symbols.sort();
    census.stacks.resize(4);
    census.stacks[2] = {64, 64, 6400};
    census.stacks[3] = {1, 1, 100};
    census.live_blocks = 65;
    census.live_bytes = 6500;
    census.without_stack = {2, 48};
  }

  StackReportInput input() const {
    return {metadata, recorded, census, StackOrder::kLiveBytes, {2, 3}, {{{100, 64}}, {{100, 1}}},
            "a.hsnap"};
  }
};

}  // namespace heapsnap::test
