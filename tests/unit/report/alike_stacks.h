#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "report/stack_lines.h"
#include "report/terminal_text.h"
#include "tests/unit/report/sample_stacks.h"

namespace heapsnap::test {

// Stacks of main and f, where f was called from several places, as the sample's first two.
struct AlikeStacks : SampleStacks {
  // Adds a stack whose innermost frame returns to that address, in a function of that name.
  void add(uint64_t address, const std::string& function, uint64_t offset, uint32_t parent = 8,
           uint64_t sample_bytes = 0) {
    CallStacks& stacks = recorded.stacks;
    stacks.nodes.push_back({parent, 0, Address(address)});
    const auto node = static_cast<uint32_t>(stacks.nodes.size() - 1);
    stacks.sites.push_back({node, 2, sample_bytes, 1, 0, 10, 0});
    census.stacks.push_back({1, 1, 10});
    if (function.empty()) return;
    const SourceFrame frame{recorded.symbols.intern(function), 0, 0, offset, false};
    recorded.symbols.add(0, Address(address), {&frame, 1});
    recorded.symbols.sort();
  }
  StackReportInput input_of(std::vector<uint32_t> ranked) const {
    StackReportInput made = input();
    made.ranked = std::move(ranked);
    made.sizes.assign(made.ranked.size(), {});
    return made;
  }
  std::vector<std::string> texts(const StackReportInput& made, size_t width) const {
    const StackLines lines(made, width);
    std::vector<std::string> result;
    for (size_t i = 0; i < made.ranked.size(); ++i) {
      StackEnd end{};
      std::string text;
      for (const FrameLine& line : lines.lines_of(i, end)) {
        text += line.function + " " + line.place + "|";
        CHECK(display_width(line.function) + display_width(line.place) <= width);
      }
      result.push_back(text + to_string(end));
    }
    return result;
  }
};

}  // namespace heapsnap::test
