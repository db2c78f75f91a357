#include "analysis/owning_roots.h"

#include <algorithm>
#include <numeric>

#include "analysis/reachability.h"
#include "base/error.h"

namespace heapsnap {

namespace {

// The lower, the longer it lasts: a block belongs to those of the lowest rank that lead to it.
int rank_of(RootKind kind) {
  switch (kind) {
    case RootKind::kStack: return 1;
    case RootKind::kRegister: return 2;
    case RootKind::kVariable:
    case RootKind::kThreadLocal:
    case RootKind::kMapping: break;
  }
  return 0;
}
constexpr int kRanks = 3;

}  // namespace

std::vector<PlacedRoot> owning_roots(const ReferenceStreams& references,
                                     const ReferenceGraph& graph, BlockSet& reached) {
  std::vector<PlacedRoot> roots;
  references.read_roots([&](const Root& root) {
    if (root.place >= references.places.size()) {
      throw Error(ErrorKind::kBadInput, "the roots", "one is in a place that is not there");
    }
    roots.push_back({root.place, root.target});
  });
  std::sort(roots.begin(), roots.end());
  roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
  reached = BlockSet(graph.blocks());
  std::vector<PlacedRoot> owning;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<BlockNumber> targets;
    for (const PlacedRoot& root : roots) {
      if (rank_of(references.places[root.place].kind) != rank) continue;
      if (root.target >= graph.blocks()) {
        throw Error(ErrorKind::kBadInput, "the roots", "one leads to a block that is not there");
      }
      if (reached.contains(root.target)) continue;
      owning.push_back(root);
      targets.push_back(root.target);
    }
    reach_more(graph, targets, reached);
  }
  reached.count();
  std::sort(owning.begin(), owning.end());
  return owning;
}

BlockNumber append_places(ReferenceGraph& graph, const std::vector<PlacedRoot>& roots,
                          size_t places) {
  const BlockNumber first = graph.blocks();
  graph.reopen();
  std::vector<BlockNumber> targets;
  for (size_t place = 0, next = 0; place < places; ++place) {
    targets.clear();
    for (; next < roots.size() && roots[next].place == place; ++next) {
      targets.push_back(roots[next].target);
    }
    graph.add(targets);
  }
  std::vector<BlockNumber> all(places);
  std::iota(all.begin(), all.end(), first);
  graph.add(all);
  graph.finish();
  return first + static_cast<BlockNumber>(places);
}

}  // namespace heapsnap
