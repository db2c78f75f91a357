#include "analysis/owner_sums.h"

#include <algorithm>
#include <span>

#include "analysis/block_facts.h"
#include "analysis/owning_references.h"
#include "analysis/owning_roots.h"
#include "analysis/reachability.h"
#include "base/large_memory.h"

namespace heapsnap {

namespace {

// Of a block: who leads to it. Else 1 and the place.
constexpr uint32_t kNobody = 0;
constexpr uint32_t kSeveralRoots = UINT32_MAX;

LargeArray<uint32_t> find_holders(const ReferenceGraph& graph, std::span<const PlacedRoot> roots) {
  constexpr size_t kAhead = 32;
  constexpr size_t kNear = 16;
  LargeArray<uint32_t> holders(graph.blocks());
  // Each block once when its first root comes, and once more when another one does.
  LargeArray<BlockNumber> queue(2 * size_t{graph.blocks()} + 1);
  size_t end = 0;
  const auto tell = [&](BlockNumber block, uint32_t holder) {
    uint32_t& known = holders[block];
    const uint32_t now = known == kNobody || known == holder ? holder : kSeveralRoots;
    queue[end] = block;
    end += now != known ? 1 : 0;
    known = now;
  };
  for (const PlacedRoot& root : roots) tell(root.target, root.place + 1);
  for (size_t next = 0; next < end; ++next) {
    if (next + kAhead < end) graph.prefetch(queue[next + kAhead]);
    if (next + kNear < end) graph.prefetch_targets(queue[next + kNear]);
    const uint32_t holder = holders[queue[next]];
    for (const BlockNumber target : graph.targets(queue[next])) tell(target, holder);
  }
  return holders;
}

}  // namespace

OwnerSums sum_owners(const SnapshotStreams& streams, const ReferenceStreams& references) {
  const BlockColumns columns = read_block_columns(streams, std::nullopt);
  const auto blocks = static_cast<BlockNumber>(columns.sizes.size());
  const unsigned word = word_size(streams.metadata->process.machine);
  std::vector<Root> roots = checked_roots(references, blocks);
  const std::vector<Thread>& threads = streams.metadata->threads;
  ReferenceGraph graph = owning_references(references, columns.sizes, word,
                                           meant_targets(roots, references.places, threads));
  require_block_count(graph.blocks(), columns.sizes.size());
  OwningRoots owning =
      owning_roots(std::move(roots), references.places, threads, graph, columns.sizes, word);
  const BlockSet garbage = garbage_of(graph, owning.reached, slots_of(streams));
  const LargeArray<uint32_t> holders = find_holders(graph, owning.roots);

  OwnerSums sums;
  sums.places = std::move(owning.places);
  const std::vector<uint32_t> first = first_of_name(sums.places);
  std::vector<Tally> by_place(sums.places.size());
  Tally of_several;
  size_t next_own = 0;
  for (BlockNumber block = 0; block < blocks; ++block) {
    if (next_own < columns.mallocs_own.size() && columns.mallocs_own[next_own] == block) {
      ++next_own;
      continue;
    }
    const uint64_t size = columns.sizes[block];
    sums.in_use.add(size);
    if (holders[block] == kNobody) {
      (garbage.contains(block) ? sums.garbage : sums.leaked).add(size);
    } else if (holders[block] == kSeveralRoots) {
      of_several.add(size);
    } else {
      by_place[first[holders[block] - 1]].add(size);
    }
  }
  for (uint32_t place = 0; place < by_place.size(); ++place) {
    if (by_place[place].count != 0) sums.owners.push_back({false, place, by_place[place]});
  }
  if (of_several.count != 0) sums.owners.push_back({true, 0, of_several});
  std::stable_sort(
      sums.owners.begin(), sums.owners.end(),
      [](const OwnerSum& a, const OwnerSum& b) { return a.retained.bytes > b.retained.bytes; });
  return sums;
}

}  // namespace heapsnap
