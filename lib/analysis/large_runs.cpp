#include "analysis/large_runs.h"

#include <algorithm>

namespace heapsnap {

namespace {

constexpr size_t kMostSizes = 4096;
// So many of the sizes in use, the most frequent ones, bear witness: each is as rarely a divisor by
// chance as it is large, and of sixty-four hardly one is.
constexpr size_t kMostWitnesses = 64;

}  // namespace

void LargeRunCensus::add_run(uint64_t size, bool in_main, bool counts, const PageBytes& pages,
                             const TrimEstimate& trim) {
  const auto key = std::pair(size, in_main);
  auto entry = runs_.find(key);
  if (entry == runs_.end()) {
    if (runs_.size() == kMostSizes) return;
    entry = runs_.emplace(key, LargeRuns{size, in_main, 0, {}, {}}).first;
  }
  LargeRuns& runs = entry->second;
  if (counts) ++runs.count;
  runs.pages += pages;
  runs.trim += trim;
}

void LargeRunCensus::add_used(uint64_t size) {
  const auto entry = used_.find(size);
  if (entry != used_.end()) {
    ++entry->second;
  } else if (used_.size() < kMostSizes) {
    used_.emplace(size, 1);
  }
}

std::vector<LargeRuns> LargeRunCensus::left_by_large_blocks() const {
  std::vector<std::pair<uint64_t, uint64_t>> witnesses;  // how many, size
  for (const auto& [size, count] : used_) witnesses.emplace_back(count, size);
  std::sort(witnesses.rbegin(), witnesses.rend());
  if (witnesses.size() > kMostWitnesses) witnesses.resize(kMostWitnesses);
  std::vector<LargeRuns> left;
  for (const auto& [key, runs] : runs_) {
    const uint64_t size = runs.size;
    if (std::any_of(witnesses.begin(), witnesses.end(),
                    [size](const auto& witness) { return size % witness.second == 0; })) {
      left.push_back(runs);
    }
  }
  return left;
}

}  // namespace heapsnap
