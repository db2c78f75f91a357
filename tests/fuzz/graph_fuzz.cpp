// Graphs of any shape: the first bytes are roots, the rest pairs of blocks. The algorithms end,
// stay in their arrays and agree with each other.
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "analysis/dominators.h"
#include "analysis/holding_paths.h"
#include "analysis/leak_classes.h"
#include "analysis/reachability.h"
#include "base/error.h"

namespace {

using namespace heapsnap;

void require(bool condition) {
  if (!condition) std::abort();
}

struct Input {
  std::vector<std::vector<BlockNumber>> edges;
  std::vector<BlockNumber> roots;
};

// Blocks are bytes modulo their number, or as they are, so that some references lead nowhere.
Input input_of(const uint8_t* data, size_t size) {
  Input input;
  const BlockNumber blocks = data[0] + 1U;
  const bool is_any = data[1] % 16 == 0;
  size_t at = 3;
  const auto block = [&](uint8_t byte) { return is_any ? byte : byte % blocks; };
  for (unsigned i = data[2] % 8; i > 0 && at < size; --i) input.roots.push_back(block(data[at++]));
  input.edges.resize(blocks);
  for (; at + 1 < size; at += 2) input.edges[data[at] % blocks].push_back(block(data[at + 1]));
  return input;
}

void check_leaks(const ReferenceGraph& graph, const BlockSet& reachable) {
  const ReferenceGraph leaked = leaked_graph(graph, reachable);
  require(leaked.blocks() == reachable.missing());
  const std::vector<uint64_t> bytes(leaked.blocks(), 16);
  const LeakClasses classes = classify_leaks(leaked, bytes);
  uint64_t shared = 0;
  for (const uint32_t origin : classes.origins) {
    require(origin == LeakClasses::kSeveral || origin < classes.sources.size());
    shared += origin == LeakClasses::kSeveral ? 1 : 0;
  }
  uint64_t retained = 0;
  for (const LeakOrigin& source : classes.sources) {
    require(classes.kinds[source.block] == source.kind && source.kind != LeakKind::kIndirect);
    require(source.retained_blocks >= source.blocks);
    retained += source.retained_blocks;
  }
  require(retained + shared == leaked.blocks());
}

void check_dominators(ReferenceGraph graph, const BlockSet& reachable,
                      const std::vector<BlockNumber>& roots) {
  const BlockNumber blocks = graph.blocks();
  graph.reopen();
  graph.add(roots);
  graph.finish();
  const DominatorTree tree = dominator_tree(std::move(graph), blocks);
  require(tree.size() == blocks - reachable.missing() + 1);
  for (uint32_t at = 1; at < tree.size(); ++at) {
    require(tree.dominators[at] < at && reachable.contains(tree.blocks[at]));
  }
  const RetainedSizes sizes = retained_sizes(tree, blocks, [](BlockNumber) { return 16; });
  require(sizes.blocks[0] == tree.size() - 1 && sizes.bytes[0] == 16 * (tree.size() - 1));
}

void check_paths(const ReferenceGraph& graph, const BlockSet& reachable,
                 const std::vector<BlockNumber>& targets) {
  std::vector<Root> roots;
  for (const BlockNumber target : targets) roots.push_back({0, 0, target, false});
  const ReferenceGraph sources = reversed(graph);
  require(sources.references() == graph.references());
  for (BlockNumber block = 0; block < graph.blocks(); ++block) {
    StepBudget budget;
    require(holding_paths(sources, roots, block, 4, budget).empty() != reachable.contains(block));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const Input input = input_of(data, size);
  ReferenceGraph graph;
  for (const auto& targets : input.edges) graph.add(targets);
  try {
    graph.finish();
    const BlockSet reachable = reachable_blocks(graph, input.roots);
    check_leaks(graph, reachable);
    check_paths(graph, reachable, input.roots);
    check_dominators(std::move(graph), reachable, input.roots);
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kBadInput);
  }
  return 0;
}
