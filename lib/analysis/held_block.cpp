#include "analysis/held_block.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "analysis/block_facts.h"
#include "analysis/garbage.h"
#include "analysis/holding_paths.h"
#include "analysis/leading_roots.h"
#include "analysis/owned_nodes.h"
#include "analysis/owning_roots.h"
#include "analysis/reachability.h"
#include "analysis/snapshot_blocks.h"
#include "analysis/some_references.h"
#include "analysis/stale_words.h"

namespace heapsnap {

namespace {

BlockFacts facts_of(const SnapshotBlock& block) {
  return {block.number, block.address, block.usable, block.stack, 0, block.is_mallocs_own};
}

std::optional<BlockFacts> find_block(const SnapshotStreams& streams, Address address) {
  std::optional<BlockFacts> found;
  each_snapshot_block(streams, [&](const SnapshotBlock& block) {
    // A block of no bytes holds its own address.
    const uint64_t bytes = std::max<uint64_t>(block.usable, 1);
    if (address >= block.address && address - block.address < bytes) found = facts_of(block);
  });
  return found;
}

using PairOfBlocks = std::pair<BlockNumber, BlockNumber>;

// Words by which a block may not be held: those that may be left over (stale_words.h), those that
// lead to a node of a container beside that (owned_nodes.h), and those that point into a block of a
// memory context, which its context alone holds. What they once pointed to may have been given back
// to the context, and given out again.
class DoubtfulWords {
 public:
  DoubtfulWords(const ReferenceStreams& references, const BlockSizes& sizes,
                const std::vector<Root>& roots, unsigned word)
      : stale_(references, sizes, word),
        nodes_(references, roots, static_cast<BlockNumber>(sizes.size()), word),
        contexts_(blocks_of_types(references, static_cast<BlockNumber>(sizes.size()),
                                  is_context_block)) {}
  bool contains(const ReferenceBatch& batch, uint64_t source, size_t i) const {
    return stale_.contains(source, batch.offsets[i], batch.targets[i]) ||
           nodes_.is_beside(batch, source, i) ||
           is_into_context(batch.targets[i], batch.interior[i] != 0);
  }
  // `roots`: of blocks that there are.
  std::vector<bool> of_roots(const std::vector<Root>& roots, const std::vector<RootPlace>& places,
                             const std::vector<Thread>& threads) const {
    std::vector<bool> result = stale_roots(roots, places, threads);
    const std::vector<bool> are_beside = nodes_.are_beside(roots);
    for (size_t i = 0; i < roots.size(); ++i) {
      if (are_beside[i] || is_into_context(roots[i].target, roots[i].interior)) result[i] = true;
    }
    return result;
  }

 private:
  bool is_into_context(BlockNumber target, bool interior) const {
    return interior && contexts_.has(target);
  }

  StaleWords stale_;
  OwnedNodes nodes_;
  BlockSet contexts_;
};

void sort_and_unify(auto& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

// Where the first of two blocks points to the second.
class WhereHeld final : public ReferenceSink {
 public:
  struct Word {
    uint32_t offset = 0;
    bool is_known = false;
    bool interior = false;
    bool may_be_stale = false;
  };
  // `wanted`: ascending, each once.
  WhereHeld(const std::vector<PairOfBlocks>& wanted, const DoubtfulWords& doubtful)
      : wanted_(wanted), doubtful_(doubtful), words_(wanted.size()) {}

  void on_references(const ReferenceBatch& batch) override {
    size_t begin = 0;
    for (size_t i = 0; i < batch.counts.size(); ++i) {
      const auto source = static_cast<BlockNumber>(batch.first + i);
      const size_t end = begin + batch.counts[i];
      const size_t pair = index_of({source, 0});
      if (pair < wanted_.size() && wanted_[pair].first == source) {
        for (size_t word = begin; word < end; ++word) look_at(batch, source, word);
      }
      begin = end;
    }
  }
  Word at(BlockNumber source, BlockNumber target) const {
    const PairOfBlocks pair{source, target};
    const size_t index = index_of(pair);
    return index < wanted_.size() && wanted_[index] == pair ? words_[index] : Word{};
  }

 private:
  size_t index_of(const PairOfBlocks& pair) const {
    return static_cast<size_t>(std::ranges::lower_bound(wanted_, pair) - wanted_.begin());
  }
  void look_at(const ReferenceBatch& batch, BlockNumber source, size_t word) {
    const PairOfBlocks pair{source, batch.targets[word]};
    const size_t index = index_of(pair);
    if (index == wanted_.size() || wanted_[index] != pair) return;
    Word& known = words_[index];
    if (known.is_known && !known.may_be_stale) return;
    const Word found{batch.offsets[word], true, batch.interior[word] != 0,
                     doubtful_.contains(batch, source, word)};
    if (!known.is_known || !found.may_be_stale) known = found;
  }

  const std::vector<PairOfBlocks>& wanted_;
  const DoubtfulWords& doubtful_;
  std::vector<Word> words_;  // of each pair
};

// What is known of some blocks.
class SomeBlocks {
 public:
  // `numbers`: ascending, each once.
  SomeBlocks(std::vector<BlockNumber> numbers, const SnapshotStreams& streams,
             const ReferenceStreams& references)
      : numbers_(std::move(numbers)), facts_(numbers_.size()) {
    each_snapshot_block(streams, [&](const SnapshotBlock& block) {
      const size_t index = index_of(block.number);
      if (index < numbers_.size() && numbers_[index] == block.number) {
        facts_[index] = facts_of(block);
      }
    });
    each_types(references, [&](BlockNumber first, std::span<const TypeNumber> types) {
      for (size_t i = index_of(first); i < numbers_.size() && numbers_[i] - first < types.size();
           ++i) {
        facts_[i].type = types[numbers_[i] - first];
      }
    });
  }
  // One of them.
  const BlockFacts& operator[](BlockNumber number) const { return facts_[index_of(number)]; }

 private:
  size_t index_of(BlockNumber number) const {
    return static_cast<size_t>(std::ranges::lower_bound(numbers_, number) - numbers_.begin());
  }

  std::vector<BlockNumber> numbers_;
  std::vector<BlockFacts> facts_;
};

// From block to what leads to it by words that hold it.
ReferenceGraph sources_in_use(const ReferenceStreams& references, const DoubtfulWords& doubtful) {
  return reversed(
      graph_of_some(references, [&](const ReferenceBatch& batch, uint64_t source, size_t i) {
        return !doubtful.contains(batch, source, i);
      }));
}

// Roots, and the variable that each is of, as owners tells those apart that have no names: an index
// into OwningRoots::places.
struct KnownRoots {
  std::vector<Root> roots;
  std::vector<uint32_t> variables;
  std::vector<bool> are_doubtful;
  std::vector<bool> are_owners;  // of what owns the block that is asked for alone

  size_t size() const { return roots.size(); }
};

// One shortest path from each variable that has a root of which `belongs(index)` is true.
template <typename Belongs>
std::vector<HoldingPath> paths_from(const KnownRoots& known, Belongs belongs,
                                    const ReferenceGraph& sources, BlockNumber block, size_t limit,
                                    StepBudget& budget) {
  std::vector<uint32_t> indices;
  std::vector<Root> some;
  for (uint32_t i = 0; i < known.size(); ++i) {
    if (!belongs(i)) continue;
    indices.push_back(i);
    some.push_back(known.roots[i]);
    some.back().place = known.variables[i];
  }
  std::vector<HoldingPath> paths = holding_paths(sources, some, block, limit, budget);
  for (HoldingPath& path : paths) path.root = indices[path.root];
  return paths;
}

// The shortest of each sort first.
struct Ways {
  std::vector<HoldingPath> by_words_in_use;
  std::vector<HoldingPath> doubtful;  // of other variables

  size_t size() const { return by_words_in_use.size() + doubtful.size(); }
};

// At most `limit`, doubtful ones only where all others are there and leave room.
Ways ways_to(const ReferenceGraph& in_use, const ReferenceGraph& all_sources,
             const KnownRoots& known, BlockNumber block, size_t limit, StepBudget& budget) {
  Ways ways;
  ways.by_words_in_use = paths_from(
      known, [&](uint32_t root) { return !known.are_doubtful[root]; }, in_use, block, limit,
      budget);
  if (budget.is_spent) return ways;
  std::set<uint32_t> variables;
  for (const HoldingPath& path : ways.by_words_in_use) {
    variables.insert(known.variables[path.root]);
  }
  ways.doubtful = paths_from(
      known, [&](uint32_t root) { return !variables.contains(known.variables[root]); }, all_sources,
      block, limit - ways.size(), budget);
  return ways;
}

// The roots of what owns the block alone, as owners counts; none where several do, or nobody.
std::vector<bool> roots_of_owner(const OwnedBlocks& owned, const BlockSizes& sizes,
                                 const KnownRoots& known, BlockNumber block) {
  const OwningRoots& owning = owned.owning;
  const uint32_t leading =
      find_leading_roots(owned.graph, owning.roots, owning.places.size(), sizes).of_blocks[block];
  std::vector<bool> are_owners(known.size());
  if (leading == LeadingRoots::kNobody || LeadingRoots::is_several(leading)) return are_owners;
  for (size_t i = 0; i < known.size(); ++i) {
    are_owners[i] = owning.first[known.variables[i]] == leading - 1;
  }
  return are_owners;
}

// Puts the shortest way from the owner among the others: `limit` roots may be nearer.
void add_owner(const ReferenceGraph& in_use, const OwnedBlocks& owned, const KnownRoots& known,
               BlockNumber block, size_t limit, Ways& ways) {
  const auto is_owner = [&](uint32_t root) { return known.are_owners[root]; };
  for (const auto* some : {&ways.by_words_in_use, &ways.doubtful}) {
    if (std::ranges::any_of(*some, is_owner, &HoldingPath::root)) return;
  }
  std::vector<HoldingPath>* among = &ways.by_words_in_use;
  StepBudget budget;
  std::vector<HoldingPath> found = paths_from(
      known, [&](uint32_t root) { return !known.are_doubtful[root] && is_owner(root); }, in_use,
      block, 1, budget);
  if (found.empty()) {
    among = &ways.doubtful;
    found = paths_from(known, is_owner, reversed(owned.graph), block, 1, budget);
  }
  if (found.empty()) return;
  if (ways.size() >= limit) {
    (ways.doubtful.empty() ? ways.by_words_in_use : ways.doubtful).pop_back();
  }
  const auto is_longer = [&](const HoldingPath& path) {
    return path.blocks.size() > found.front().blocks.size();
  };
  among->insert(std::ranges::find_if(*among, is_longer), std::move(found.front()));
}

// What is reached with the block and not without, from `starts`.
Tally retained_by(const SnapshotStreams& streams, const ReferenceGraph& graph,
                  std::span<const BlockNumber> starts, BlockNumber block, bool is_leaked) {
  const BlockSet with_roots = reachable_blocks(graph, starts);
  BlockSet other(graph.blocks());
  if (is_leaked) {
    reach_more(graph, std::span(&block, 1), other);
  } else {
    other.insert(block);  // and so not followed
    reach_more(graph, starts, other);
  }
  Tally result;
  each_snapshot_block(streams, [&](const SnapshotBlock& one) {
    const bool alive = with_roots.contains(one.number);
    const bool in_other = other.contains(one.number);
    const bool goes = is_leaked ? in_other && !alive : (alive && !in_other) || one.number == block;
    if (goes) result.add(one.usable);
  });
  return result;
}

// Says of the paths and of the blocks that point to `result.block` what they are, and which words
// of them lead on.
void add_steps(const SnapshotStreams& streams, const ReferenceStreams& references,
               const DoubtfulWords& doubtful, const KnownRoots& known,
               const std::vector<HoldingPath>& paths, const std::vector<BlockNumber>& sources,
               HeldBlock& result) {
  const BlockNumber number = result.block.number;
  const unsigned word = word_size(streams.metadata->process.machine);
  std::vector<PairOfBlocks> pairs;
  std::vector<BlockNumber> numbers = {number};
  for (const BlockNumber source : sources) pairs.emplace_back(source, number);
  for (const HoldingPath& path : paths) {
    for (size_t i = 1; i < path.blocks.size(); ++i) {
      pairs.emplace_back(path.blocks[i - 1], path.blocks[i]);
    }
    numbers.insert(numbers.end(), path.blocks.begin(), path.blocks.end());
  }
  numbers.insert(numbers.end(), sources.begin(), sources.end());
  sort_and_unify(pairs);
  sort_and_unify(numbers);
  WhereHeld words(pairs, doubtful);
  references.read_references(words);
  const SomeBlocks facts(std::move(numbers), streams, references);

  result.block.type = facts[number].type;
  const auto step_between = [&](BlockNumber source, BlockNumber target, BlockNumber shown) {
    const WhereHeld::Word where = words.at(source, target);
    return HeldStep{facts[shown], uint64_t{where.offset} * word, where.interior,
                    where.may_be_stale};
  };
  for (const BlockNumber source : sources) {
    result.sources.push_back(step_between(source, number, source));
  }
  for (const HoldingPath& path : paths) {
    const Root& root = known.roots[path.root];
    HeldPath held{root.place, known.are_owners[path.root], {}};
    held.steps.push_back({facts[path.blocks.front()], root.offset, root.interior,
                          static_cast<bool>(known.are_doubtful[path.root])});
    for (size_t i = 1; i < path.blocks.size(); ++i) {
      held.steps.push_back(step_between(path.blocks[i - 1], path.blocks[i], path.blocks[i]));
    }
    result.paths.push_back(std::move(held));
  }
}

}  // namespace

std::optional<HeldBlock> explain_block(const SnapshotStreams& streams,
                                       const ReferenceStreams& references, Address address,
                                       size_t limit) {
  const auto found = find_block(streams, address);
  if (!found) return std::nullopt;
  HeldBlock result;
  result.block = *found;
  const std::vector<ThreadCache>& caches = streams.metadata->heap.thread_caches;
  result.block.is_thread_cache =
      found->is_mallocs_own && std::ranges::any_of(caches, [&](const ThreadCache& cache) {
        return cache.tcache == found->address;
      });
  result.offset = address - found->address;
  const BlockNumber number = found->number;

  const unsigned word = word_size(streams.metadata->process.machine);
  const BlockColumns columns = read_block_columns(streams, std::nullopt);
  const auto blocks = static_cast<BlockNumber>(columns.sizes.size());
  // As owners and types count: what a root owns is not kept by a frame that works on it.
  const OwnedBlocks owned = owned_blocks(streams, references, columns.sizes);
  KnownRoots known{checked_roots(references, blocks), owned.places, {}, {}};
  const DoubtfulWords doubtful(references, columns.sizes, known.roots, word);
  known.are_doubtful = doubtful.of_roots(known.roots, references.places, streams.metadata->threads);
  const ReferenceGraph in_use = sources_in_use(references, doubtful);
  Ways ways;
  StepBudget budget;
  std::vector<BlockNumber> sources;
  {
    ReferenceGraph graph = read_graph(references);
    const ReferenceGraph back = reversed(graph);
    if (owned.owning.reached.contains(number)) graph.release();
    ways = ways_to(in_use, back, known, number, limit, budget);
    result.lacks_paths = budget.is_spent;
    const std::span<const BlockNumber> all = back.targets(number);
    sources.assign(all.begin(), all.end());
    if (ways.size() == 0) {
      result.retained = retained_by(streams, graph, targets_of(known.roots), number, true);
    }
  }
  sort_and_unify(sources);
  std::erase(sources, number);
  result.source_count = sources.size();
  sources.resize(std::min(sources.size(), limit));
  if (ways.size() != 0) {
    std::vector<BlockNumber> starts;
    for (const PlacedRoot& root : owned.owning.roots) starts.push_back(root.target);
    known.are_owners = roots_of_owner(owned, columns.sizes, known, number);
    add_owner(in_use, owned, known, number, limit, ways);
    result.retained = retained_by(streams, owned.graph, starts, number, false);
  } else if (has_collector(streams)) {
    result.is_garbage = owned.garbage.has(number);
  }

  std::vector<HoldingPath> paths = std::move(ways.by_words_in_use);
  std::ranges::move(ways.doubtful, std::back_inserter(paths));
  add_steps(streams, references, doubtful, known, paths, sources, result);
  return result;
}

}  // namespace heapsnap
