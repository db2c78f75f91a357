#include "analysis/near_order.h"

#include <algorithm>
#include <array>
#include <vector>

namespace heapsnap {

namespace {

// How many walk at a time: as many as a processor can wait for.
constexpr size_t kWalkers = 24;
// New numbers that a walker takes at a time, so that its blocks come one after another.
constexpr BlockNumber kNumbersTaken = 512;

class Walks {
 public:
  explicit Walks(const ReferenceGraph& graph) : graph_(graph) {
    const size_t blocks = graph.blocks();
    order_.numbers = LargeArray<BlockNumber>(blocks);
    std::fill(order_.numbers.begin(), order_.numbers.end(), kNoBlock);
    // Some numbers stay unused until close_gaps().
    order_.blocks = LargeArray<BlockNumber>(blocks + kWalkers * kNumbersTaken);
    std::fill(order_.blocks.begin(), order_.blocks.end(), kNoBlock);
  }

  NearOrder run() && {
    size_t active = 0;
    for (Walker& walker : walkers_) active += begin(walker) ? 1 : 0;
    while (active > 0) {
      for (Walker& walker : walkers_) {
        if (walker.stage == Stage::kDone) continue;
        step(walker);
        if (walker.stage == Stage::kDone) --active;
      }
    }
    close_gaps();
    return std::move(order_);
  }

 private:
  // Each stage asks for the memory that the next one reads.
  enum class Stage : uint8_t { kArrive, kFollow, kChoose, kDone };

  // Of a long array only the first blocks are tried; others are walked to on their own.
  static constexpr size_t kTargetsTried = 16;
  // Blocks that a walk passed by: it comes back to the last of them when it gets no further.
  static constexpr size_t kPassedBy = 64;

  struct Walker {
    Stage stage = Stage::kDone;
    BlockNumber block = 0;
    BlockNumber next_number = 0;
    BlockNumber numbers_end = 0;
    size_t passed_end = 0;  // counts on; the oldest are overwritten
    size_t passed_begin = 0;
    std::array<BlockNumber, kPassedBy> passed;
  };

  bool begin(Walker& walker) {
    while (walker.passed_end > walker.passed_begin) {
      const BlockNumber block = walker.passed[--walker.passed_end % kPassedBy];
      if (order_.numbers[block] != kNoBlock) continue;
      go_to(walker, block);
      return true;
    }
    while (next_start_ < graph_.blocks() && order_.numbers[next_start_] != kNoBlock) ++next_start_;
    if (next_start_ == graph_.blocks()) {
      walker.stage = Stage::kDone;
      return false;
    }
    go_to(walker, next_start_++);
    return true;
  }

  void go_to(Walker& walker, BlockNumber block) {
    walker.block = block;
    graph_.prefetch(block);
    walker.stage = Stage::kArrive;
  }

  void pass_by(Walker& walker, BlockNumber block) {
    walker.passed[walker.passed_end++ % kPassedBy] = block;
    if (walker.passed_end - walker.passed_begin > kPassedBy) ++walker.passed_begin;
  }

  void step(Walker& walker) {
    switch (walker.stage) {
      case Stage::kArrive:
        if (order_.numbers[walker.block] != kNoBlock) {  // another walker was faster
          begin(walker);
          return;
        }
        give_number(walker, walker.block);
        graph_.prefetch_targets(walker.block);
        walker.stage = Stage::kFollow;
        return;
      case Stage::kFollow:
        for (const BlockNumber target : tried(walker)) {
          __builtin_prefetch(&order_.numbers[target], 1);
          graph_.prefetch(target);
        }
        walker.stage = Stage::kChoose;
        return;
      case Stage::kChoose: choose(walker); return;
      case Stage::kDone: return;
    }
  }

  std::span<const BlockNumber> tried(const Walker& walker) const {
    const std::span<const BlockNumber> targets = graph_.targets(walker.block);
    return targets.first(std::min(targets.size(), kTargetsTried));
  }

  // What leads nowhere is numbered at once; of the rest, the walk goes to the first.
  void choose(Walker& walker) {
    const std::span<const BlockNumber> targets = tried(walker);
    BlockNumber next = kNoBlock;
    for (size_t i = targets.size(); i-- > 0;) {
      const BlockNumber target = targets[i];
      if (order_.numbers[target] != kNoBlock) continue;
      if (graph_.targets(target).empty()) {
        give_number(walker, target);
        continue;
      }
      if (next != kNoBlock) pass_by(walker, next);
      next = target;
    }
    next == kNoBlock ? static_cast<void>(begin(walker)) : go_to(walker, next);
  }

  void give_number(Walker& walker, BlockNumber block) {
    const BlockNumber number = take_number(walker);
    order_.numbers[block] = number;
    order_.blocks[number] = block;
  }

  BlockNumber take_number(Walker& walker) {
    if (walker.next_number == walker.numbers_end) {
      walker.next_number = numbers_taken_;
      numbers_taken_ += kNumbersTaken;
      walker.numbers_end = numbers_taken_;
    }
    return walker.next_number++;
  }

  // Numbers that were taken but not used get the blocks with the highest numbers.
  void close_gaps() {
    BlockNumber last = numbers_taken_;
    for (BlockNumber gap = 0; gap < graph_.blocks(); ++gap) {
      if (order_.blocks[gap] != kNoBlock) continue;
      do --last;
      while (order_.blocks[last] == kNoBlock);
      order_.blocks[gap] = order_.blocks[last];
      order_.blocks[last] = kNoBlock;
      order_.numbers[order_.blocks[gap]] = gap;
    }
    order_.blocks.truncate(graph_.blocks());
  }

  const ReferenceGraph& graph_;
  NearOrder order_;
  std::array<Walker, kWalkers> walkers_;
  BlockNumber next_start_ = 0;
  BlockNumber numbers_taken_ = 0;
};

}  // namespace

NearOrder near_order(const ReferenceGraph& graph) {
  return Walks(graph).run();
}

ReferenceGraph renumbered(const ReferenceGraph& graph, const NearOrder& order) {
  // How far ahead memory is asked for:
  // where targets are, the targets, then the numbers of some of them.
  constexpr size_t kAhead = 32;
  constexpr size_t kNear = 20;
  constexpr size_t kNext = 8;
  constexpr size_t kNumbers = 4;
  ReferenceGraph result;
  result.reserve(graph.blocks(), graph.references());
  std::vector<BlockNumber> targets;
  const size_t blocks = graph.blocks();
  for (size_t number = 0; number < blocks; ++number) {
    if (number + kAhead < blocks) graph.prefetch(order.blocks[number + kAhead]);
    if (number + kNear < blocks) graph.prefetch_targets(order.blocks[number + kNear]);
    if (number + kNext < blocks) {
      const std::span<const BlockNumber> soon = graph.targets(order.blocks[number + kNext]);
      for (size_t i = 0; i < std::min(soon.size(), kNumbers); ++i) {
        __builtin_prefetch(&order.numbers[soon[i]]);
      }
    }
    targets.clear();
    for (const BlockNumber target : graph.targets(order.blocks[number])) {
      targets.push_back(order.numbers[target]);
    }
    result.add(targets);
  }
  result.finish();
  return result;
}

}  // namespace heapsnap
