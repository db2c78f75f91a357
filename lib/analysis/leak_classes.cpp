#include "analysis/leak_classes.h"

#include <algorithm>

#include "analysis/strong_components.h"

namespace heapsnap {

namespace {

struct ComponentFacts {
  uint32_t blocks = 0;
  bool has_reference_from_outside = false;
  bool has_cycle = false;
};

std::vector<ComponentFacts> facts_of(const ReferenceGraph& leaked,
                                     const StrongComponents& components) {
  std::vector<ComponentFacts> facts(components.count);
  for (BlockNumber block = 0; block < leaked.blocks(); ++block) {
    const BlockNumber own = components.component[block];
    ++facts[own].blocks;
    for (const BlockNumber target : leaked.targets(block)) {
      const BlockNumber other = components.component[target];
      if (other == own) {
        facts[own].has_cycle |= target != block;
      } else {
        facts[other].has_reference_from_outside = true;
      }
    }
  }
  return facts;
}

// Blocks in the order of their components: no reference leads back, but within one.
LargeArray<BlockNumber> in_order(const StrongComponents& components,
                                 const std::vector<ComponentFacts>& facts) {
  std::vector<BlockNumber> next(facts.size());
  BlockNumber begin = 0;
  for (size_t i = 0; i < facts.size(); ++i) {
    next[i] = begin;
    begin += facts[i].blocks;
  }
  LargeArray<BlockNumber> order(components.component.size());
  for (BlockNumber block = 0; block < order.size(); ++block) {
    order[next[components.component[block]]++] = block;
  }
  return order;
}

}  // namespace

const char* to_string(LeakKind kind) {
  switch (kind) {
    case LeakKind::kDirect: return "direct";
    case LeakKind::kIndirect: return "indirect";
    case LeakKind::kCycle: return "cycle";
  }
  return "unknown";
}

ReferenceGraph leaked_graph(const ReferenceGraph& graph, const BlockSet& reachable) {
  ReferenceGraph leaked;
  std::vector<BlockNumber> targets;
  reachable.each_missing([&](BlockNumber block) {
    targets.clear();
    for (const BlockNumber target : graph.targets(block)) {
      if (!reachable.contains(target)) targets.push_back(reachable.rank_missing(target));
    }
    leaked.add(targets);
  });
  leaked.finish();
  return leaked;
}

LeakClasses classify_leaks(const ReferenceGraph& leaked, std::span<const uint64_t> bytes) {
  constexpr uint32_t kNone = LeakClasses::kSeveral - 1;
  const StrongComponents components = strong_components(leaked);
  const std::vector<ComponentFacts> facts = facts_of(leaked, components);
  LeakClasses result;
  result.kinds.resize(leaked.blocks(), LeakKind::kIndirect);
  result.origins.resize(leaked.blocks());
  // Of each component: the only source that leads to it, as far as is known.
  std::vector<uint32_t> origin(components.count, kNone);
  for (BlockNumber block = 0; block < leaked.blocks(); ++block) {
    const BlockNumber component = components.component[block];
    if (facts[component].has_reference_from_outside) continue;
    const LeakKind kind = facts[component].has_cycle ? LeakKind::kCycle : LeakKind::kDirect;
    result.kinds[block] = kind;
    if (origin[component] != kNone) continue;
    origin[component] = static_cast<uint32_t>(result.sources.size());
    result.sources.push_back({block, kind, facts[component].blocks, 0, 0});
  }
  for (const BlockNumber block : in_order(components, facts)) {
    const BlockNumber component = components.component[block];
    const uint32_t own = origin[component];
    result.origins[block] = own;
    if (own != LeakClasses::kSeveral) {
      ++result.sources[own].retained_blocks;
      result.sources[own].retained_bytes += bytes[block];
    }
    for (const BlockNumber target : leaked.targets(block)) {
      uint32_t& other = origin[components.component[target]];
      if (other == kNone) {
        other = own;
      } else if (other != own) {
        other = LeakClasses::kSeveral;
      }
    }
  }
  return result;
}

}  // namespace heapsnap
