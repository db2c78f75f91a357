// Leaked blocks: those that no root reaches, and which of them keep the others.
//
//   a ──► b ──► c        a: direct, nothing else that is leaked points to it;
//                        b and c: indirect
//   d ◄─► e ──► f        d and e: cycle, nothing outside of it points to it; f: indirect
//
// Whoever frees what a direct block or a cycle holds, frees the indirect ones with it: they are the
// ones to look at first, by what is reachable only through them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/block_set.h"
#include "analysis/reference_graph.h"

namespace heapsnap {

enum class LeakKind : uint8_t { kDirect = 0, kIndirect = 1, kCycle = 2 };
inline constexpr int kLeakKindCount = 3;

const char* to_string(LeakKind kind);  // "direct", "indirect", "cycle"

// A direct block or a cycle.
struct LeakOrigin {
  BlockNumber block = 0;  // of a cycle the first
  LeakKind kind = LeakKind::kDirect;
  BlockNumber blocks = 0;           // in the cycle; 1 of a direct one
  BlockNumber retained_blocks = 0;  // reachable only through it, itself included
  uint64_t retained_bytes = 0;
};

// `kinds` and `origins` are indexed by rank: BlockSet::rank_missing() of a leaked block.
struct LeakClasses {
  static constexpr uint32_t kSeveral = UINT32_MAX;

  std::vector<LeakKind> kinds;
  // Index into `sources` of the only one that leads to the block, or is or holds it; kSeveral.
  std::vector<uint32_t> origins;
  std::vector<LeakOrigin> sources;  // in order of their first blocks
};

// The references from leaked blocks to leaked blocks, numbered by rank.
ReferenceGraph leaked_graph(const ReferenceGraph& graph, const BlockSet& reachable);

// `leaked`: the graph above; `bytes`: of each of its blocks. About 40 bytes a leaked block.
LeakClasses classify_leaks(const ReferenceGraph& leaked, std::span<const uint64_t> bytes);

}  // namespace heapsnap
