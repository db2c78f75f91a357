#include "analysis/reachability.h"

#include <bit>

#include "base/error.h"

namespace heapsnap {

namespace {

BlockSet copy_of(const BlockSet& set) {
  BlockSet copy(set.blocks());
  for (BlockNumber block = 0; block < set.blocks(); ++block) {
    if (set.contains(block)) copy.insert(block);
  }
  return copy;
}

// Adds `start` and what it leads to, if it is not in the set yet; says whether it was added.
// `waiting` is empty, and is again afterwards.
bool reach_from(const ReferenceGraph& graph, BlockNumber start, BlockSet& reached,
                LargeArray<BlockNumber>& waiting) {
  if (!reached.insert(start)) return false;
  waiting.push_back(start);
  while (!waiting.empty()) {
    const BlockNumber next = waiting.back();
    waiting.pop_back();
    for (const BlockNumber target : graph.targets(next)) {
      if (reached.insert(target)) waiting.push_back(target);
    }
  }
  return true;
}

// Where few blocks wait, they wait in a queue. Where many do, all bits are gone through, so that
// blocks that lie side by side are looked at one after the other.
class Search {
 public:
  Search(const ReferenceGraph& graph, BlockSet& reached)
      : graph_(graph), reached_(reached), queue_(size_t{graph.blocks()} + 1) {}

  void run(std::span<const BlockNumber> roots) {
    for (const BlockNumber root : roots) {
      if (reached_.insert(root)) queue_[end_++] = root;
    }
    empty_queue();
    while (next_ < end_) {
      sweep();
      empty_queue();
    }
  }

 private:
  // As many wait as let the next one lie in a cache line with another, mostly.
  static constexpr size_t kManyOf = 32;
  static constexpr size_t kFewest = 4096;

  size_t many() const { return graph_.blocks() / kManyOf + kFewest; }

  // Until many wait, or none does.
  void empty_queue() {
    // How far ahead of the block that is looked at memory is asked for: where the targets of a
    // block are, and half of the way later the targets.
    constexpr size_t kAhead = 32;
    constexpr size_t kNear = 16;
    BlockNumber* const queue = queue_.data();
    size_t next = next_;
    size_t end = end_;
    for (const size_t most = many(); next < end && end - next < most; ++next) {
      if (next + kAhead < end) graph_.prefetch(queue[next + kAhead]);
      if (next + kNear < end) graph_.prefetch_targets(queue[next + kNear]);
      for (const BlockNumber target : graph_.targets(queue[next])) {
        queue[end] = target;
        end += reached_.insert(target) ? 1 : 0;  // without a branch: half of them are not new
      }
    }
    next_ = next;
    end_ = end;
  }

  // Goes through all blocks as long as many wait; those that wait then are in the queue.
  void sweep() {
    const std::span<const uint64_t> reached = reached_.words();
    LargeArray<uint64_t> done;
    done.append(reached);
    for (; next_ < end_; ++next_) {
      done[queue_[next_] / 64] &= ~(uint64_t{1} << (queue_[next_] % 64));
    }
    const size_t few = many() / 2;
    for (size_t looked_at = few; looked_at >= few;) {
      looked_at = 0;
      for (size_t word = 0; word < reached.size(); ++word) {
        // Blocks of the same word may lead to each other.
        for (uint64_t waiting = 0; (waiting = reached[word] & ~done[word]) != 0;) {
          done[word] |= waiting;
          for (; waiting != 0; waiting &= waiting - 1, ++looked_at) {
            const uint64_t block = word * 64 + static_cast<unsigned>(std::countr_zero(waiting));
            for (const BlockNumber target : graph_.targets(static_cast<BlockNumber>(block))) {
              reached_.insert(target);
            }
          }
        }
      }
    }
    next_ = end_ = 0;
    for (size_t word = 0; word < reached.size(); ++word) {
      for (uint64_t waiting = reached[word] & ~done[word]; waiting != 0; waiting &= waiting - 1) {
        queue_[end_++] =
            static_cast<BlockNumber>(word * 64 + static_cast<unsigned>(std::countr_zero(waiting)));
      }
    }
  }

  const ReferenceGraph& graph_;
  BlockSet& reached_;
  LargeArray<BlockNumber> queue_;  // one more than blocks: what is written last may be no new one
  size_t next_ = 0;
  size_t end_ = 0;
};

}  // namespace

std::vector<BlockNumber> targets_of(std::span<const Root> roots) {
  std::vector<BlockNumber> targets;
  targets.reserve(roots.size());
  for (const Root& root : roots) targets.push_back(root.target);
  return targets;
}

void reach_more(const ReferenceGraph& graph, std::span<const BlockNumber> roots,
                BlockSet& reached) {
  for (const BlockNumber root : roots) {
    if (root >= graph.blocks()) {
      throw Error(ErrorKind::kBadInput, "the roots", "one leads to a block that is not there");
    }
  }
  Search(graph, reached).run(roots);
}

BlockSet reachable_blocks(const ReferenceGraph& graph, std::span<const BlockNumber> roots) {
  BlockSet reached(graph.blocks());
  reach_more(graph, roots, reached);
  reached.count();
  return reached;
}

// Whatever order blocks are tried in: of a cycle that no other block leads to, the first one tried
// is found new, and so is each block that nothing leads to. The others that are found new are led
// to by ones that are tried later. So of all that were found new, those that are found new once
// more in the opposite order are what is wanted.
std::vector<BlockNumber> sources_of_rest(const ReferenceGraph& graph, const BlockSet& reached,
                                         std::span<const BlockSet> preferred) {
  LargeArray<BlockNumber> waiting;
  LargeArray<BlockNumber> candidates;
  {
    BlockSet seen = copy_of(reached);
    const auto try_block = [&](BlockNumber block) {
      if (reach_from(graph, block, seen, waiting)) candidates.push_back(block);
    };
    for (const BlockSet& set : preferred) {
      for (BlockNumber block = 0; block < graph.blocks(); ++block) {
        if (set.contains(block)) try_block(block);
      }
    }
    for (BlockNumber block = 0; block < graph.blocks(); ++block) try_block(block);
  }
  BlockSet seen = copy_of(reached);
  std::vector<BlockNumber> sources;
  for (size_t i = candidates.size(); i-- > 0;) {
    if (reach_from(graph, candidates[i], seen, waiting)) sources.push_back(candidates[i]);
  }
  return sources;
}

}  // namespace heapsnap
