#include "analysis/deep_dominators.h"

#include <algorithm>

#include "analysis/near_order.h"

namespace heapsnap {

namespace {

constexpr uint32_t kNoPosition = UINT32_MAX;
// With fewer blocks the graph lies in the processor's caches.
constexpr BlockNumber kWorthOrdering = 500'000;
// near_order() needs some numbers more than there are blocks.
constexpr BlockNumber kTooMany = UINT32_MAX - 1'000'000;

// Of a block: its own position and that of the block from which the search came to it.
struct Arrival {
  uint32_t position = kNoPosition;
  uint32_t parent = kNoPosition;
};

struct DepthFirstOrder {
  LargeArray<BlockNumber> blocks;  // by position
  LargeArray<Arrival> arrivals;    // by block
};

// The references that the search did not take, turned round: of the position w those from
// sources[first[w]] to sources[first[w + 1]]. Within groups as in ReferenceGraph.
struct OtherReferences {
  static constexpr unsigned kGroupBits = 12;
  LargeArray<uint64_t> group_first;
  LargeArray<uint32_t> first_in_group;
  LargeArray<uint32_t> sources;

  uint64_t first(uint32_t position) const {
    return group_first[position >> kGroupBits] + first_in_group[position];
  }
};

// Depth first: what was found last is visited next, from the block that found it last.
DepthFirstOrder search(const ReferenceGraph& graph, BlockNumber root) {
  struct Found {
    BlockNumber block;
    uint32_t from;
  };
  constexpr size_t kAhead = 16;
  DepthFirstOrder order;
  order.arrivals = LargeArray<Arrival>(graph.blocks());
  std::fill(order.arrivals.begin(), order.arrivals.end(), Arrival{});
  LargeArray<Found> found;
  found.push_back({root, 0});
  while (!found.empty()) {
    const Found next = found.back();
    found.pop_back();
    if (found.size() >= kAhead) {
      const BlockNumber soon = found[found.size() - kAhead].block;
      graph.prefetch(soon);
      __builtin_prefetch(&order.arrivals[soon], 1);
    }
    Arrival& arrival = order.arrivals[next.block];
    if (arrival.position != kNoPosition) continue;
    const auto position = static_cast<uint32_t>(order.blocks.size());
    arrival = {position, next.from};
    order.blocks.push_back(next.block);
    const std::span<const BlockNumber> targets = graph.targets(next.block);
    for (size_t i = targets.size(); i-- > 0;) {
      graph.prefetch(targets[i]);
      if (order.arrivals[targets[i]].position == kNoPosition) {
        found.push_back({targets[i], position});
      }
    }
  }
  order.blocks.shrink();
  return order;
}

// Writes positions over the graph's targets.
OtherReferences other_references(ReferenceGraph& graph, const LargeArray<Arrival>& arrivals,
                                 uint32_t positions) {
  constexpr size_t kAhead = 32;
  constexpr size_t kNear = 16;
  OtherReferences others;
  others.first_in_group = LargeArray<uint32_t>(size_t{positions} + 1);
  LargeArray<uint32_t>& place = others.first_in_group;
  // All targets lie one after another.
  BlockNumber* const targets = graph.blocks() == 0 ? nullptr : graph.targets(0).data();
  const size_t references = graph.references();
  size_t i = 0;
  for (BlockNumber block = 0; block < graph.blocks(); ++block) {
    const size_t end = i + graph.targets(block).size();
    const uint32_t own = arrivals[block].position;
    for (; i < end; ++i) {
      if (i + kAhead < references) __builtin_prefetch(&arrivals[targets[i + kAhead]]);
      const Arrival& arrival = arrivals[targets[i]];
      // One that the search took, or its like, says nothing new.
      const bool is_other = own != kNoPosition && arrival.parent != own && arrival.position != own;
      targets[i] = is_other ? arrival.position : kNoPosition;
      if (is_other) ++place[arrival.position];
    }
  }
  uint64_t end = 0;
  for (size_t position = 0; position <= positions; ++position) {
    if (position % (1U << OtherReferences::kGroupBits) == 0) others.group_first.push_back(end);
    end += place[position];
    place[position] = static_cast<uint32_t>(end - others.group_first.back());
  }
  others.sources = LargeArray<uint32_t>(end);
  i = 0;
  for (BlockNumber block = 0; block < graph.blocks(); ++block) {
    const size_t block_end = i + graph.targets(block).size();
    for (; i < block_end; ++i) {
      if (i + kAhead < references && targets[i + kAhead] != kNoPosition) {
        __builtin_prefetch(&place[targets[i + kAhead]], 1);
      }
      if (i + kNear < references && targets[i + kNear] != kNoPosition) {
        __builtin_prefetch(others.sources.data() + others.first(targets[i + kNear]) - 1, 1);
      }
      if (targets[i] == kNoPosition) continue;
      --place[targets[i]];
      others.sources[others.first(targets[i])] = arrivals[block].position;
    }
  }
  return others;
}

// Semidominators of all positions, from the last to the first.
//
// Positions above the one at work are in a forest of paths, each with the least semidominator on
// the way up to, but without, `up`.
LargeArray<uint32_t> semidominators(const OtherReferences& others,
                                    const LargeArray<uint32_t>& parents) {
  struct Path {
    uint32_t up;
    uint32_t least;
  };
  constexpr size_t kAhead = 24;
  constexpr size_t kNear = 12;
  const auto positions = static_cast<uint32_t>(parents.size());
  LargeArray<Path> paths(positions);
  for (uint32_t at = 0; at < positions; ++at) paths[at] = {parents[at], 0};
  LargeArray<uint32_t> result(positions);
  for (uint32_t at = positions; at-- > 1;) {
    uint32_t least = parents[at];
    const uint64_t begin = others.first(at);
    for (uint64_t i = others.first(at + 1); i-- > begin;) {
      if (i >= kAhead) __builtin_prefetch(&paths[others.sources[i - kAhead]], 1);
      if (i >= kNear) __builtin_prefetch(&paths[paths[others.sources[i - kNear]].up], 1);
      uint32_t source = others.sources[i];
      if (source < at) {
        least = std::min(least, source);
        continue;
      }
      // Up to the tree that is not in the forest yet; each one on the way skips the next.
      while (source > at) {
        Path& path = paths[source];
        least = std::min(least, path.least);
        const uint32_t up = path.up;
        if (up > at) {
          path.least = std::min(path.least, paths[up].least);
          path.up = paths[up].up;
        }
        source = up;
      }
    }
    result[at] = least;
    paths[at].least = least;
  }
  return result;
}

// The nearest ancestor in the tree so far that comes no later than the semidominator.
LargeArray<uint32_t> immediate_dominators(LargeArray<uint32_t> parents,
                                          LargeArray<uint32_t> semidominators) {
  struct Jump {
    uint32_t to;  // an ancestor far up, chosen so that a walk takes O(log n) steps
    uint32_t depth;
  };
  LargeArray<uint32_t> dominators = std::move(parents);
  LargeArray<Jump> jumps(dominators.size());
  for (uint32_t at = 1; at < dominators.size(); ++at) {
    uint32_t up = dominators[at];
    const uint32_t semi = semidominators[at];
    while (up > semi) up = jumps[up].to >= semi ? jumps[up].to : dominators[up];
    dominators[at] = up;
    const Jump& near = jumps[up];
    const Jump& far = jumps[near.to];
    const bool is_even = near.depth - far.depth == far.depth - jumps[far.to].depth;
    jumps[at] = {is_even ? far.to : up, near.depth + 1};
  }
  return dominators;
}

}  // namespace

DominatorTree deep_dominator_tree(ReferenceGraph graph, BlockNumber root) {
  DominatorTree tree;
  LargeArray<BlockNumber> old_numbers;
  if (graph.blocks() >= kWorthOrdering && graph.blocks() < kTooMany) {
    NearOrder near = near_order(graph);
    graph = renumbered(graph, near);
    root = near.numbers[root];
    old_numbers = std::move(near.blocks);
  }
  DepthFirstOrder order = search(graph, root);
  tree.blocks = std::move(order.blocks);
  const OtherReferences others = other_references(graph, order.arrivals, tree.size());
  graph.release();
  LargeArray<uint32_t> parents(tree.size());
  for (const Arrival& arrival : order.arrivals) {
    if (arrival.position != kNoPosition) parents[arrival.position] = arrival.parent;
  }
  order.arrivals.release();
  LargeArray<uint32_t> semi = semidominators(others, parents);
  if (!old_numbers.empty()) {
    for (BlockNumber& block : tree.blocks) block = old_numbers[block];
    old_numbers.release();
  }
  tree.dominators = immediate_dominators(std::move(parents), std::move(semi));
  return tree;
}

}  // namespace heapsnap
