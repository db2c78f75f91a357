#include "analysis/dominators.h"

#include <utility>

#include "analysis/broad_dominators.h"
#include "analysis/deep_dominators.h"

namespace heapsnap {

DominatorTree dominator_tree(ReferenceGraph graph, BlockNumber root) {
  if (root >= graph.blocks()) return {};
  if (auto tree = broad_dominator_tree(graph, root)) return std::move(*tree);
  return deep_dominator_tree(std::move(graph), root);
}

}  // namespace heapsnap
