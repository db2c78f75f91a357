#include "analysis/advice.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <numeric>

namespace heapsnap {

namespace {

constexpr uint64_t kLeastBytes = 1 << 20;
constexpr uint64_t kLeastShare = 50;  // one part in fifty of the whole: 2 %
// One part in ten, where nothing gives it back or the remedy has its price.
constexpr uint64_t kMuchShare = 10;

// Free memory in parts of which each remedy takes all or nothing. Those of arenas other than the
// main one come kThreads later.
enum Part : unsigned {
  kLeftTrimmed,  // left by large blocks, and malloc_trim(0) gives it back
  kLeftKept,     // left by large blocks, in pages that used chunks share
  kRunTrimmed,   // the same of other free runs
  kRunKept,
  kTopTrimmed,
  kTopKept,
  kThreads,  // how many parts a main arena has
  kCached = 2 * kThreads,
  kPythonFree,
  kPartCount,
};
using Parts = std::array<uint64_t, kPartCount>;
using PartSet = uint32_t;

constexpr PartSet of_main(Part part) {
  return PartSet{1} << part;
}
constexpr PartSet of_both(Part part) {
  return of_main(part) | of_main(part) << kThreads;
}

constexpr PartSet parts_of(AdviceKind kind) {
  switch (kind) {
    case AdviceKind::kTrim:
      return of_both(kLeftTrimmed) | of_both(kRunTrimmed) | of_both(kTopTrimmed);
    case AdviceKind::kArenaMax: return (of_main(kThreads) - 1) << kThreads;
    case AdviceKind::kMmapThreshold: return of_both(kLeftTrimmed) | of_both(kLeftKept);
    case AdviceKind::kTcacheCount: return of_main(kCached);
    case AdviceKind::kFragmentation: return of_both(kLeftKept) | of_both(kRunKept);
    case AdviceKind::kPythonPools: return of_main(kPythonFree);
  }
  return 0;
}

uint64_t sum(const Parts& parts, PartSet set) {
  uint64_t bytes = 0;
  for (; set != 0; set &= set - 1) bytes += parts[static_cast<size_t>(std::countr_zero(set))];
  return bytes;
}

// Where nothing is known of residency, bytes of address space stand in for it.
class FreeMemory {
 public:
  FreeMemory(const SnapshotMetadata& metadata, const HeapSummary& summary,
             const RssAccount& account)
      : is_virtual_(account.basis == RssBasis::kVirtual) {
    for (size_t i = 0; i < summary.arenas.size(); ++i) {
      add_arena(metadata.heap.arenas[i], summary.arenas[i]);
    }
    for (const LargeRuns& runs : summary.large_runs.left_by_large_blocks()) move_left(runs);
    parts_[kPythonFree] =
        account[RssRow::kPythonPools].resident + account[RssRow::kPythonArenas].resident;
    parts_[kCached] = amount(figures_of(summary.totals, ChunkState::kTcache).pages);
  }

  bool is_virtual() const { return is_virtual_; }
  uint64_t bytes(PartSet set) const { return sum(parts_, set); }
  uint64_t runs_left() const { return runs_left_; }

  // What fewer arenas would save if they were used one after the other: all that is free, less what
  // the largest ones keep, since the memory of each is needed once at least.
  uint64_t saved_by_sharing(size_t arenas) const {
    uint64_t saved = 0;
    for (const auto& [instance, pools] : pools_) {
      std::vector<uint64_t> sorted = pools;
      std::sort(sorted.rbegin(), sorted.rend());
      const size_t kept = std::min(arenas, sorted.size());
      saved +=
          std::accumulate(sorted.begin() + static_cast<ptrdiff_t>(kept), sorted.end(), uint64_t{0});
    }
    return saved;
  }

 private:
  uint64_t amount(const PageBytes& bytes) const {
    return is_virtual_ ? bytes.total() : bytes.resident;
  }
  static size_t first_part(bool is_main) { return is_main ? 0 : size_t{kThreads}; }

  void add_arena(const Arena& arena, const ArenaSummary& summary) {
    const uint64_t runs = amount(idle_figures(summary.states).pages);
    const uint64_t top = amount(figures_of(summary.states, ChunkState::kTop).pages);
    const uint64_t from_runs =
        std::min(runs, is_virtual_ ? summary.trim.unknown : summary.trim.bins);
    const uint64_t from_top =
        std::min(top, is_virtual_ ? summary.trim.unknown - from_runs : summary.trim.top);
    const size_t first = first_part(arena.is_main);
    parts_[first + kRunTrimmed] += from_runs;
    parts_[first + kRunKept] += runs - from_runs;
    parts_[first + kTopTrimmed] += from_top;
    parts_[first + kTopKept] += top - from_top;
    pools_[arena.instance].push_back(runs + top);
  }

  // These were counted among all runs.
  void move_left(const LargeRuns& runs) {
    const uint64_t all = amount(runs.pages);
    const uint64_t trimmed = std::min(all, is_virtual_ ? runs.trim.unknown : runs.trim.bins);
    const size_t first = first_part(runs.in_main);
    move(first + kRunTrimmed, first + kLeftTrimmed, trimmed);
    move(first + kRunKept, first + kLeftKept, all - trimmed);
    runs_left_ += runs.count;
  }
  void move(size_t from, size_t to, uint64_t bytes) {
    bytes = std::min(bytes, parts_[from]);
    parts_[from] -= bytes;
    parts_[to] += bytes;
  }

  bool is_virtual_;
  Parts parts_{};
  uint64_t runs_left_ = 0;
  std::map<uint32_t, std::vector<uint64_t>> pools_;  // by malloc: what is free in each arena
};

Advice about(AdviceKind kind, uint64_t bytes) {
  Advice advice;
  advice.kind = kind;
  advice.bytes = bytes;
  return advice;
}

// Follows from the snapshot, as far as residency is known.
Advice predicted(AdviceKind kind, const FreeMemory& memory) {
  Advice advice = about(kind, memory.bytes(parts_of(kind)));
  advice.saves_least = memory.is_virtual() ? 0 : advice.bytes;
  advice.saves_most = advice.bytes;
  return advice;
}

Advice about_arenas(const SnapshotMetadata& metadata, const FreeMemory& memory) {
  Advice advice = about(AdviceKind::kArenaMax, memory.bytes(parts_of(AdviceKind::kArenaMax)));
  advice.count = metadata.heap.arenas.size();
  advice.other_count = metadata.threads.size();
  // Nothing where all threads need their memory at the same time, which no snapshot tells.
  advice.saves_most = std::min(advice.bytes, memory.saved_by_sharing(arenas_advised(advice.count)));
  return advice;
}

Advice about_threshold(const HeapSummary& summary, const FreeMemory& memory) {
  Advice advice = predicted(AdviceKind::kMmapThreshold, memory);
  advice.count = memory.runs_left();
  advice.other_count = summary.large_used.count;
  return advice;
}

Advice about_tcaches(const SnapshotMetadata& metadata, const HeapSummary& summary,
                     const FreeMemory& memory) {
  Advice advice = about(AdviceKind::kTcacheCount, memory.bytes(parts_of(AdviceKind::kTcacheCount)));
  advice.count = figures_of(summary.totals, ChunkState::kTcache).chunks.count;
  for (const MallocInstance& instance : metadata.heap.instances) {
    advice.other_count = std::max(advice.other_count, instance.tcache_count);
  }
  return advice;
}

Advice about_pools(const SnapshotMetadata& metadata, const FreeMemory& memory) {
  Advice advice = about(AdviceKind::kPythonPools, memory.bytes(parts_of(AdviceKind::kPythonPools)));
  for (const Runtime& runtime : metadata.runtimes.runtimes) {
    if (runtime.kind == RuntimeKind::kPython) advice.count += runtime.areas;
  }
  return advice;
}

// What is certain, then what may save something, then the others; the most first.
bool comes_before(const Advice& a, const Advice& b) {
  if (a.is_certain() != b.is_certain()) return a.is_certain();
  if (a.is_predicted() != b.is_predicted()) return a.is_predicted();
  return a.is_predicted() ? a.saves_most > b.saves_most : a.bytes > b.bytes;
}

void find_overlaps(std::vector<Advice>& all, const FreeMemory& memory) {
  PartSet before = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const PartSet own = parts_of(all[i].kind);
    const uint64_t amount = all[i].is_predicted() ? all[i].saves_most : all[i].bytes;
    all[i].overlap = std::min(amount, memory.bytes(own & before));
    for (size_t j = 0; j < i; ++j) {
      if (memory.bytes(own & parts_of(all[j].kind)) != 0) all[i].overlaps.push_back(j);
    }
    before |= own;
  }
}

}  // namespace

const char* to_string(AdviceKind kind) {
  switch (kind) {
    case AdviceKind::kTrim: return "trim";
    case AdviceKind::kArenaMax: return "arena-max";
    case AdviceKind::kMmapThreshold: return "mmap-threshold";
    case AdviceKind::kTcacheCount: return "tcache-count";
    case AdviceKind::kFragmentation: return "fragmentation";
    case AdviceKind::kPythonPools: return "python-pools";
  }
  return "unknown";
}

std::vector<Advice> advise(const SnapshotMetadata& metadata, const HeapSummary& summary,
                           const RssAccount& account) {
  const FreeMemory memory(metadata, summary, account);
  std::vector<Advice> all = {
      predicted(AdviceKind::kTrim, memory),
      about_arenas(metadata, memory),
      about_threshold(summary, memory),
      about_tcaches(metadata, summary, memory),
      // Which pages are shared is only known where it is known which are resident.
      about(AdviceKind::kFragmentation, summary.kept.bins),
      about_pools(metadata, memory),
  };
  const uint64_t least = std::max(kLeastBytes, account.total.resident / kLeastShare);
  const uint64_t much = account.total.resident / kMuchShare;
  std::erase_if(all, [&](const Advice& advice) {
    const bool must_save = advice.kind == AdviceKind::kArenaMax;
    if (must_save && arenas_advised(advice.count) == 1) {
      const PartSet kept = parts_of(advice.kind) & ~parts_of(AdviceKind::kTrim);
      if (std::min(advice.saves_most, memory.bytes(kept)) < much) return true;
    }
    const bool is_fragmentation =
        advice.kind == AdviceKind::kFragmentation || advice.kind == AdviceKind::kPythonPools;
    if (is_fragmentation && advice.bytes < much) return true;
    return (must_save ? advice.saves_most : advice.bytes) < least;
  });
  std::stable_sort(all.begin(), all.end(), comes_before);
  find_overlaps(all, memory);
  return all;
}

SavedTogether saved_together(const std::vector<Advice>& advice, const SnapshotMetadata& metadata,
                             const HeapSummary& summary, const RssAccount& account) {
  const FreeMemory memory(metadata, summary, account);
  SavedTogether together;
  PartSet all = 0;
  PartSet certain = 0;
  uint64_t sum = 0;
  bool overlap = false;
  for (size_t i = 0; i < advice.size(); ++i) {
    const Advice& one = advice[i];
    if (!one.is_predicted()) continue;
    together.items.push_back(i);
    overlap |= one.overlap != 0;
    all |= parts_of(one.kind);
    if (one.is_certain()) certain |= parts_of(one.kind);
    sum += one.saves_most;
  }
  if (!overlap) return {};
  together.least = memory.bytes(certain);
  together.most = std::min(sum, memory.bytes(all));
  return together;
}

}  // namespace heapsnap
