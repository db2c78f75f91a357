#include "analysis/reference_graph.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace heapsnap {

namespace {

[[noreturn]] void refuse_graph(const std::string& why) {
  throw Error(ErrorKind::kBadInput, "the references between blocks", why);
}

}  // namespace

void ReferenceGraph::add_first() {
  if (blocks_ % (1U << kGroupBits) == 0) group_first_.push_back(targets_.size());
  const uint64_t in_group = targets_.size() - group_first_.back();
  if (in_group > UINT32_MAX) refuse_graph("one block has too many");
  first_in_group_.push_back(static_cast<uint32_t>(in_group));
}

void ReferenceGraph::reserve(BlockNumber blocks, uint64_t references) {
  first_in_group_.reserve(size_t{blocks} + 1);
  targets_.reserve(references);
}

void ReferenceGraph::add(std::span<const BlockNumber> targets) {
  if (blocks_ == kNoBlock - 1) refuse_graph("there are more than 2^32 blocks");
  add_first();
  ++blocks_;
  extend(targets);
}

void ReferenceGraph::extend(std::span<const BlockNumber> targets) {
  for (const BlockNumber target : targets) largest_target_ = std::max(largest_target_, target);
  targets_.append(targets);
}

void ReferenceGraph::finish() {
  if (!targets_.empty() && largest_target_ >= blocks_) {
    refuse_graph("one leads to block " + std::to_string(largest_target_) + " of " +
                 std::to_string(blocks_));
  }
  add_first();  // the end of the last block's
  group_first_.shrink();
  first_in_group_.shrink();
  targets_.shrink();
}

void ReferenceGraph::reopen() {
  first_in_group_.pop_back();
  if (blocks_ % (1U << kGroupBits) == 0) group_first_.pop_back();
}

void ReferenceGraph::release() {
  blocks_ = 0;
  largest_target_ = 0;
  group_first_.release();
  first_in_group_.release();
  targets_.release();
}

uint64_t ReferenceGraph::memory_bytes() const {
  return group_first_.bytes() + first_in_group_.bytes() + targets_.bytes();
}

ReferenceGraph reversed(const ReferenceGraph& graph) {
  // By counting: how many each block gets, where those of each end, and each to its place, from the
  // end of its block's on. What lies this far ahead is asked for, as targets are in no order.
  constexpr size_t kAhead = 32;
  constexpr size_t kNear = 16;
  const BlockNumber* targets = graph.targets_.data();
  const size_t references = graph.targets_.size();
  ReferenceGraph result;
  result.blocks_ = graph.blocks_;
  result.first_in_group_ = LargeArray<uint32_t>(size_t{graph.blocks_} + 1);
  LargeArray<uint32_t>& place = result.first_in_group_;
  for (size_t i = 0; i < references; ++i) {
    if (i + kAhead < references) __builtin_prefetch(&place[targets[i + kAhead]], 1);
    ++place[targets[i]];
  }
  uint64_t end = 0;
  for (size_t block = 0; block <= graph.blocks_; ++block) {
    if (block % (1U << ReferenceGraph::kGroupBits) == 0) result.group_first_.push_back(end);
    end += place[block];
    const uint64_t in_group = end - result.group_first_.back();
    if (in_group > UINT32_MAX) refuse_graph("too many lead to one block");
    place[block] = static_cast<uint32_t>(in_group);
  }
  result.targets_ = LargeArray<BlockNumber>(references);
  size_t i = 0;
  for (BlockNumber block = 0; block < graph.blocks_; ++block) {
    for (const BlockNumber target : graph.targets(block)) {
      if (i + kAhead < references) __builtin_prefetch(&place[targets[i + kAhead]], 1);
      if (i + kNear < references) {
        __builtin_prefetch(result.targets_.data() + result.first(targets[i + kNear]) - 1, 1);
      }
      --place[target];
      result.targets_[result.first(target)] = block;
      ++i;
    }
  }
  result.largest_target_ = graph.blocks_ == 0 ? 0 : graph.blocks_ - 1;
  return result;
}

void ReferenceGraphSink::on_references(const ReferenceBatch& batch) {
  // A block with very many may go on in the next batch.
  const bool goes_on = batch.first + uint64_t{1} == graph_.blocks();
  if (batch.first != graph_.blocks() && !goes_on) refuse_graph("some are missing");
  size_t begin = 0;
  for (size_t i = 0; i < batch.counts.size(); ++i) {
    const uint32_t count = batch.counts[i];
    if (count > batch.targets.size() - begin) refuse_graph("a batch is cut off");
    const auto targets = batch.targets.subspan(begin, count);
    if (goes_on && i == 0) {
      graph_.extend(targets);
    } else {
      graph_.add(targets);
    }
    begin += count;
  }
}

}  // namespace heapsnap
