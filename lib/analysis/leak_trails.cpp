#include "analysis/leak_trails.h"

#include <algorithm>

#include "analysis/snapshot_blocks.h"
#include "base/error.h"
#include "target/process.h"

namespace heapsnap {

namespace {

// Of census.blocks, which are in ascending order of these numbers.
std::vector<BlockNumber> numbers_of(const SnapshotStreams& streams, const LeakCensus& census) {
  std::vector<BlockNumber> numbers;
  numbers.reserve(census.blocks.size());
  each_snapshot_block(streams, [&](const SnapshotBlock& block) {
    const size_t next = numbers.size();
    if (next < census.blocks.size() && census.blocks[next].address == block.address) {
      numbers.push_back(block.number);
    }
  });
  if (numbers.size() != census.blocks.size()) {
    throw Error(ErrorKind::kBadInput, "the leaked blocks", "the snapshot has not all of them");
  }
  return numbers;
}

// Where the trails go on: a step, by the number of its block.
struct Open {
  BlockNumber number = 0;
  uint32_t trail = 0;
  uint32_t step = 0;
  bool operator<(const Open& other) const { return number < other.number; }
};

class TrailSink final : public ReferenceSink {
 public:
  TrailSink(std::vector<std::vector<LeakStep>>& trails, const std::vector<BlockNumber>& numbers,
            unsigned word, size_t most)
      : trails_(trails), numbers_(numbers), word_(word), most_(most) {}

  // For the next pass, which goes on from what the last one found.
  void start(std::vector<Open> open) {
    open_ = std::move(open);
    std::sort(open_.begin(), open_.end());
    found_.clear();
  }
  std::vector<Open> take_found() { return std::move(found_); }

  void on_references(const ReferenceBatch& batch) override {
    size_t word = 0;
    for (size_t i = 0; i < batch.counts.size(); ++i) {
      const Open wanted{static_cast<BlockNumber>(batch.first + i), 0, 0};
      const size_t end = word + batch.counts[i];
      if (batch.counts[i] != 0) {
        const auto [first, last] = std::equal_range(open_.begin(), open_.end(), wanted);
        for (auto open = first; open != last; ++open) {
          for (size_t at = word; at < end; ++at) add(*open, batch, at);
        }
      }
      word = end;
    }
  }

 private:
  void add(const Open& open, const ReferenceBatch& batch, size_t at) {
    std::vector<LeakStep>& trail = trails_[open.trail];
    if (trail.size() >= most_) return;
    const auto found = std::lower_bound(numbers_.begin(), numbers_.end(), batch.targets[at]);
    if (found == numbers_.end() || *found != batch.targets[at]) return;  // not leaked: suppressed
    const auto block = static_cast<uint32_t>(found - numbers_.begin());
    const bool is_known = std::any_of(trail.begin(), trail.end(),
                                      [&](const LeakStep& step) { return step.block == block; });
    if (is_known) return;
    found_.push_back({*found, open.trail, static_cast<uint32_t>(trail.size())});
    trail.push_back(
        {block, open.step, uint64_t{batch.offsets[at]} * word_, batch.interior[at] != 0});
  }

  std::vector<std::vector<LeakStep>>& trails_;
  const std::vector<BlockNumber>& numbers_;
  unsigned word_;
  size_t most_;
  std::vector<Open> open_;
  std::vector<Open> found_;
};

}  // namespace

std::vector<std::vector<LeakStep>> leak_trails(const SnapshotStreams& streams,
                                               const ReferenceStreams& references,
                                               const LeakCensus& census,
                                               const LeakTrailBounds& bounds) {
  std::vector<std::vector<LeakStep>> trails(std::min(bounds.groups, census.groups.size()));
  if (trails.empty()) return trails;
  const std::vector<BlockNumber> numbers = numbers_of(streams, census);
  std::vector<Open> open;
  for (uint32_t i = 0; i < trails.size(); ++i) {
    const BlockNumber block = census.sources[census.groups[i].largest].block;
    trails[i].push_back({block, 0, 0, false});
    open.push_back({numbers[block], i, 0});
  }
  TrailSink sink(trails, numbers, word_size(streams.metadata->process.machine), bounds.steps);
  for (size_t level = 0; level < bounds.levels && !open.empty(); ++level) {
    sink.start(std::move(open));
    references.read_references(sink);
    open = sink.take_found();
  }
  return trails;
}

}  // namespace heapsnap
