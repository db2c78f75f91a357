#include "analysis/stack_census.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <unordered_map>

#include "analysis/live_blocks.h"

namespace heapsnap {

namespace {

// `most`: what it cannot be more than.
uint64_t whole(double estimate, uint64_t most) {
  if (!(estimate > 0)) return 0;
  return estimate < static_cast<double>(most) ? static_cast<uint64_t>(std::round(estimate)) : most;
}

}  // namespace

StackCensus take_stack_census(const SnapshotStreams& streams, const CallStacks& stacks) {
  StackCensus census;
  census.stacks.resize(stacks.sites.size());
  double passed_over_blocks = 0;
  double passed_over_bytes = 0;
  each_live_block(streams, [&](uint32_t stack, uint64_t size, uint64_t usable) {
    if (stack == tracker::kNoStack) {
      census.without_stack.add(usable);
    } else if (stack >= census.stacks.size()) {
      census.strange.add(usable);
    } else {
      StackFigures& figures = census.stacks[stack];
      const double weight = stacks.sites[stack].weight(size);
      ++figures.blocks_found;
      figures.live_blocks += weight;
      figures.live_bytes += weight * static_cast<double>(size);
      passed_over_blocks += weight - 1;
      passed_over_bytes += (weight - 1) * static_cast<double>(usable);
    }
  });
  for (const StackFigures& figures : census.stacks) {
    census.live_blocks += figures.live_blocks;
    census.live_bytes += figures.live_bytes;
  }
  census.passed_over = {whole(passed_over_blocks, census.without_stack.count),
                        whole(passed_over_bytes, census.without_stack.bytes)};
  return census;
}

std::vector<std::vector<SizeCount>> block_sizes(const SnapshotStreams& streams,
                                                std::span<const uint32_t> stacks, size_t most) {
  std::unordered_map<uint32_t, size_t> index;
  for (size_t i = 0; i < stacks.size(); ++i) index.emplace(stacks[i], i);
  std::vector<std::map<uint64_t, uint64_t>> counts(stacks.size());
  size_t pairs = 0;
  each_live_block(streams, [&](uint32_t stack, uint64_t size, uint64_t) {
    const auto wanted = index.find(stack);
    if (wanted == index.end()) return;
    std::map<uint64_t, uint64_t>& sizes = counts[wanted->second];
    auto above = sizes.upper_bound(size);
    const bool is_known = above != sizes.begin() && std::prev(above)->first == size;
    if (is_known || pairs == most) {
      if (above != sizes.begin()) ++std::prev(above)->second;
      return;
    }
    sizes.emplace_hint(above, size, 1);
    ++pairs;
  });
  std::vector<std::vector<SizeCount>> result;
  for (const auto& sizes : counts) {
    result.emplace_back();
    for (const auto& [size, count] : sizes) result.back().push_back({size, count});
  }
  return result;
}

std::vector<SizeCount> by_power_of_two(std::span<const SizeCount> sizes) {
  std::vector<SizeCount> classes;
  for (const SizeCount& one : sizes) {
    const uint64_t begin = std::bit_floor(one.size);
    if (classes.empty() || classes.back().size != begin) classes.push_back({begin, 0});
    classes.back().count += one.count;
  }
  return classes;
}

double measure_of(const StackCensus& census, const CallStacks& stacks, StackOrder order,
                  uint32_t stack) {
  const AllocationSite& site = stacks.sites[stack];
  switch (order) {
    case StackOrder::kLiveBytes: return census.stacks[stack].live_bytes;
    case StackOrder::kLiveBlocks: return census.stacks[stack].live_blocks;
    case StackOrder::kRate: return site.allocation_count();
    case StackOrder::kChurn: break;
  }
  return static_cast<double>(site.allocated_bytes) + static_cast<double>(site.freed_bytes);
}

double total_of(const StackCensus& census, const CallStacks& stacks, StackOrder order) {
  double total = 0;
  for (uint32_t stack = 0; stack < census.stacks.size(); ++stack) {
    total += measure_of(census, stacks, order, stack);
  }
  return total;
}

std::vector<uint32_t> ranked_stacks(const StackCensus& census, const CallStacks& stacks,
                                    StackOrder order, size_t limit) {
  std::vector<std::pair<double, uint32_t>> ranked;
  for (uint32_t stack = 0; stack < census.stacks.size(); ++stack) {
    const double value = measure_of(census, stacks, order, stack);
    if (value > 0) ranked.emplace_back(-value, stack);
  }
  const size_t count = limit == 0 ? ranked.size() : std::min(limit, ranked.size());
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<ptrdiff_t>(count), ranked.end());
  std::vector<uint32_t> result;
  for (size_t i = 0; i < count; ++i) result.push_back(ranked[i].second);
  return result;
}

std::vector<uint32_t> ranked_threads(std::span<const TrackedThread> threads, StackOrder order,
                                     size_t limit) {
  const auto measure = [&](uint32_t index) {
    const TrackedThread& thread = threads[index];
    if (order == StackOrder::kRate) return thread.allocations;
    const bool by_churn = order == StackOrder::kChurn;
    return thread.allocated_bytes + (by_churn ? thread.freed_bytes : 0);
  };
  std::vector<uint32_t> ranked(threads.size());
  std::iota(ranked.begin(), ranked.end(), 0);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](uint32_t a, uint32_t b) { return measure(a) > measure(b); });
  if (limit != 0 && limit < ranked.size()) ranked.resize(limit);
  return ranked;
}

StackOrder listing_order(const StackCensus& census, const CallStacks& stacks, StackOrder wanted) {
  const bool is_live = wanted == StackOrder::kLiveBytes || wanted == StackOrder::kLiveBlocks;
  if (!is_live || total_of(census, stacks, wanted) > 0) return wanted;
  return total_of(census, stacks, StackOrder::kChurn) > 0 ? StackOrder::kChurn : wanted;
}

uint64_t churned_bytes(const StackCensus& census, const CallStacks& stacks) {
  uint64_t freed = 0;
  for (const AllocationSite& site : stacks.sites) freed += site.freed_bytes;
  return churned_bytes(freed, census.live_bytes);
}

uint64_t churned_bytes(uint64_t freed, uint64_t in_use) {
  constexpr uint64_t kMuch = 16 << 20;
  constexpr uint64_t kMuchMore = 16;
  return freed >= kMuch && freed / kMuchMore >= in_use ? freed : 0;
}

}  // namespace heapsnap
