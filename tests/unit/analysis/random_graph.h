// Small random graphs of all sorts, and what is true of them, found out by the simplest means.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "analysis/reference_graph.h"

namespace heapsnap::test {

using Edges = std::vector<std::vector<BlockNumber>>;

inline ReferenceGraph graph_of(const Edges& edges) {
  ReferenceGraph graph;
  for (const auto& targets : edges) graph.add(targets);
  graph.finish();
  return graph;
}

// From no references to many; loops, repetitions and parts that nothing reaches come by themselves.
inline Edges random_edges(std::mt19937& random, BlockNumber most_blocks) {
  const BlockNumber blocks = 1 + random() % most_blocks;
  Edges edges(blocks);
  const bool is_local = random() % 3 == 0;  // ladders and irreducible regions
  const auto count = random() % (3 * blocks + 1);
  for (unsigned i = 0; i < count; ++i) {
    const BlockNumber from = random() % blocks;
    const BlockNumber to =
        is_local ? (from + blocks + random() % 5 - 2) % blocks : random() % blocks;
    edges[from].push_back(to);
  }
  if (random() % 2 == 0) {
    for (BlockNumber block = 0; block + 1 < blocks; ++block) edges[block].push_back(block + 1);
  }
  return edges;
}

// What is reached from `starts` without stepping on `without`.
inline std::vector<bool> reached(const Edges& edges, const std::vector<BlockNumber>& starts,
                                 BlockNumber without = kNoBlock) {
  std::vector<bool> result(edges.size());
  std::vector<BlockNumber> open;
  const auto visit = [&](BlockNumber block) {
    if (block == without || result[block]) return;
    result[block] = true;
    open.push_back(block);
  };
  for (const BlockNumber start : starts) visit(start);
  while (!open.empty()) {
    const BlockNumber block = open.back();
    open.pop_back();
    for (const BlockNumber target : edges[block]) visit(target);
  }
  return result;
}

}  // namespace heapsnap::test
