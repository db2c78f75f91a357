#include "analysis/stack_rates.h"

#include <algorithm>

namespace heapsnap {

namespace {

constexpr double kMostRate = 0x1p62;  // fits an int64_t

// Of counts that only rise.
double rise(uint64_t before, uint64_t now) {
  return now > before ? static_cast<double>(now - before) : 0;
}

int64_t live_bytes(uint64_t allocated, uint64_t freed) {
  return static_cast<int64_t>(allocated - freed);
}

}  // namespace

double measure_of(const StackRate& rate, StackMeasure by) {
  switch (by) {
    case StackMeasure::kLive: return static_cast<double>(rate.live_bytes);
    case StackMeasure::kLiveRate: return static_cast<double>(rate.live_per_s);
    case StackMeasure::kChurn: return static_cast<double>(rate.churn_per_s);
    case StackMeasure::kAllocations: return rate.allocations_per_s;
    case StackMeasure::kBlocks: return rate.live_blocks;
  }
  return 0;
}

bool StackRates::begins_anew(const CallStacks& stacks) const {
  if (stacks.sites.size() < before_.size()) return true;
  uint64_t before = 0;
  uint64_t now = 0;
  for (size_t i = 0; i < before_.size(); ++i) {
    before += before_[i].allocations;
    now += stacks.sites[i].allocations;
  }
  return now < before;
}

std::vector<StackRate> StackRates::next(const CallStacks& stacks, uint64_t monotonic_ns,
                                        StackMeasure by, size_t most) {
  if (begins_anew(stacks)) {
    before_.clear();
    before_ns_ = 0;
  }
  const bool has_rates = before_ns_ != 0 && monotonic_ns > before_ns_;
  const double seconds = has_rates ? static_cast<double>(monotonic_ns - before_ns_) / 1e9 : 1;
  const auto is_higher = [by](const StackRate& a, const StackRate& b) {
    const double one = measure_of(a, by);
    const double other = measure_of(b, by);
    if (one != other) return one > other;
    return a.live_bytes != b.live_bytes ? a.live_bytes > b.live_bytes : a.stack < b.stack;
  };
  before_.resize(stacks.sites.size());
  busy_ = 0;
  std::vector<StackRate> highest;  // a heap: the lowest of them is in front
  for (uint32_t stack = 0; stack < stacks.sites.size(); ++stack) {
    const AllocationSite& site = stacks.sites[stack];
    Counts& before = before_[stack];
    StackRate rate;
    rate.stack = stack;
    rate.live_bytes = live_bytes(site.allocated_bytes, site.freed_bytes);
    rate.live_blocks = site.allocation_count() - site.free_count();
    if (has_rates) {
      const double churn = rise(before.allocated_bytes, site.allocated_bytes) +
                           rise(before.freed_bytes, site.freed_bytes);
      const double growth =
          static_cast<double>(rate.live_bytes) -
          static_cast<double>(live_bytes(before.allocated_bytes, before.freed_bytes));
      AllocationSite change = site;
      change.allocations =
          site.allocations > before.allocations ? site.allocations - before.allocations : 0;
      rate.churn_per_s = static_cast<uint64_t>(std::min(churn / seconds, kMostRate));
      rate.live_per_s = static_cast<int64_t>(std::clamp(growth / seconds, -kMostRate, kMostRate));
      rate.allocations_per_s = change.allocation_count() / seconds;
    }
    before = {site.allocations, site.allocated_bytes, site.freed_bytes};
    const bool is_busy = rate.live_bytes != 0 || rate.live_blocks != 0 || rate.churn_per_s != 0;
    if (!is_busy) continue;
    ++busy_;
    if (highest.size() == most) {
      if (most == 0 || !is_higher(rate, highest.front())) continue;
      std::pop_heap(highest.begin(), highest.end(), is_higher);
      highest.pop_back();
    }
    highest.push_back(rate);
    std::push_heap(highest.begin(), highest.end(), is_higher);
  }
  before_ns_ = monotonic_ns;
  std::sort_heap(highest.begin(), highest.end(), is_higher);
  return highest;
}

}  // namespace heapsnap
