#include "analysis/advice.h"

#include <algorithm>

namespace heapsnap {

namespace {

constexpr uint64_t kLeastBytes = 1 << 20;
constexpr uint64_t kLeastShare = 50;  // one part in fifty of the whole: 2 %

const StateFigures& figures_of(const FiguresByState& states, ChunkState state) {
  return states[static_cast<size_t>(state)];
}

// Where nothing is known of residency, bytes of address space stand in for it.
uint64_t resident_or_all(const PageBytes& bytes, const RssAccount& account) {
  return account.basis == RssBasis::kVirtual ? bytes.total() : bytes.resident;
}

Advice about_arenas(const SnapshotMetadata& metadata, const HeapSummary& summary,
                    const RssAccount& account) {
  Advice advice{AdviceKind::kArenaMax, 0, summary.arenas.size(), metadata.threads.size()};
  for (size_t i = 0; i < summary.arenas.size(); ++i) {
    if (metadata.heap.arenas[i].is_main) continue;
    PageBytes idle = free_figures(summary.arenas[i].states).pages;
    idle -= figures_of(summary.arenas[i].states, ChunkState::kTcache).pages;
    advice.bytes += resident_or_all(idle, account);
  }
  return advice;
}

Advice about_tcaches(const SnapshotMetadata& metadata, const HeapSummary& summary,
                     const RssAccount& account) {
  const StateFigures& cached = figures_of(summary.totals, ChunkState::kTcache);
  Advice advice{AdviceKind::kTcacheCount, resident_or_all(cached.pages, account),
                cached.chunks.count, 0};
  for (const MallocInstance& instance : metadata.heap.instances) {
    advice.other_count = std::max(advice.other_count, instance.tcache_count);
  }
  return advice;
}

}  // namespace

const char* to_string(AdviceKind kind) {
  switch (kind) {
    case AdviceKind::kTrim: return "trim";
    case AdviceKind::kArenaMax: return "arena-max";
    case AdviceKind::kMmapThreshold: return "mmap-threshold";
    case AdviceKind::kTcacheCount: return "tcache-count";
    case AdviceKind::kHugePages: return "huge-pages";
    case AdviceKind::kFragmentation: return "fragmentation";
  }
  return "unknown";
}

std::vector<Advice> advise(const SnapshotMetadata& metadata, const HeapSummary& summary,
                           const RssAccount& account) {
  const uint64_t trim =
      account.basis == RssBasis::kVirtual ? summary.trim.unknown : summary.trim.resident();
  std::vector<Advice> all = {
      {AdviceKind::kTrim, trim, 0, 0},
      about_arenas(metadata, summary, account),
      {AdviceKind::kMmapThreshold, resident_or_all(summary.large_free.pages, account),
       summary.large_free.chunks.count, summary.large_used.count},
      about_tcaches(metadata, summary, account),
      {AdviceKind::kHugePages, free_figures(summary.totals).pages.huge, 0, 0},
      {AdviceKind::kFragmentation, summary.kept.bins, 0, 0},
  };
  const uint64_t least = std::max(kLeastBytes, account.total.resident / kLeastShare);
  std::erase_if(all, [least](const Advice& advice) { return advice.bytes < least; });
  std::stable_sort(all.begin(), all.end(),
                   [](const Advice& a, const Advice& b) { return a.bytes > b.bytes; });
  return all;
}

}  // namespace heapsnap
