#include "analysis/strong_components.h"

namespace heapsnap {

namespace {

// A block whose references are being followed.
struct OpenBlock {
  BlockNumber block;
  BlockNumber own;  // its number in the order of arrival
  uint32_t next;    // of its references
};

}  // namespace

StrongComponents strong_components(const ReferenceGraph& graph) {
  const BlockNumber blocks = graph.blocks();
  StrongComponents result;
  // 0: not seen yet. While a block is open: the smallest number that it is known to lead back to.
  // Afterwards its component, numbered downwards from the end, and so above all numbers of open
  // blocks: those numbers are given back when a component is complete.
  result.component = LargeArray<BlockNumber>(blocks);
  LargeArray<BlockNumber>& low = result.component;
  BlockNumber next_number = 1;
  BlockNumber next_component = blocks;
  LargeArray<OpenBlock> open;
  LargeArray<BlockNumber> waiting;  // for the first block of their component to be complete
  const auto arrive = [&](BlockNumber block) {
    low[block] = next_number;
    open.push_back({block, next_number, 0});
    ++next_number;
  };
  for (BlockNumber start = 0; start < blocks; ++start) {
    if (low[start] != 0) continue;
    arrive(start);
    while (!open.empty()) {
      OpenBlock& top = open.back();
      const std::span<const BlockNumber> targets = graph.targets(top.block);
      bool has_arrived = false;
      while (top.next < targets.size()) {
        const BlockNumber target = targets[top.next];
        if (low[target] == 0) {
          arrive(target);  // and look at this reference again afterwards
          has_arrived = true;
          break;
        }
        if (low[target] < low[top.block]) low[top.block] = low[target];
        ++top.next;
      }
      if (has_arrived) continue;
      const OpenBlock done = top;
      open.pop_back();
      if (low[done.block] != done.own) {
        waiting.push_back(done.block);
        continue;
      }
      --next_number;
      while (!waiting.empty() && low[waiting.back()] >= done.own) {
        low[waiting.back()] = next_component;
        waiting.pop_back();
        --next_number;
      }
      low[done.block] = next_component;
      --next_component;
    }
  }
  result.count = blocks - next_component;
  for (BlockNumber& component : low) component -= next_component + 1;
  return result;
}

}  // namespace heapsnap
