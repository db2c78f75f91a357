// Call stacks put together by hand, of functions by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/stack_census.h"
#include "snapshot/call_stack_tables.h"
#include "tracking/tracker_record.h"

namespace heapsnap::test {

// Stacks of named frames, each with some live bytes.
struct NamedStacks {
  StackCensus census;
  RecordedStacks recorded;
  TrackerRecord tracker;

  NamedStacks() {
    recorded.stacks.nodes.resize(tracker::kFirstNode);
    recorded.stacks.sites.resize(tracker::kFirstStack);
    census.stacks.resize(tracker::kFirstStack);
    tracker.modules.resize(1);
    tracker.modules[0].path = "/usr/bin/git";
  }

  // Innermost first; "" is a frame of which nothing is known.
  void add(uint64_t bytes, const std::vector<std::string>& functions) {
    uint32_t parent = tracker::kRootComplete;
    for (auto function = functions.rbegin(); function != functions.rend(); ++function) {
      const Address address(0x1000 + recorded.stacks.nodes.size());
      recorded.stacks.nodes.push_back({parent, 0, address});
      parent = static_cast<uint32_t>(recorded.stacks.nodes.size() - 1);
      if (function->empty()) continue;
      const SourceFrame frame{recorded.symbols.intern(*function), 0, 0, 0, false};
      recorded.symbols.add(0, address, {&frame, 1});
    }
    recorded.stacks.sites.push_back({parent, 0, 0, 1, 0, bytes, 0});
    census.stacks.push_back({1, 1, static_cast<double>(bytes)});
    census.live_bytes += static_cast<double>(bytes);
    recorded.symbols.sort();
  }
};

}  // namespace heapsnap::test
