#include "heap/walk/mmapped_choice.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>

namespace heapsnap {
namespace {

constexpr uint64_t kMostDriftSteps = 1 << 16;
// Of a search for looks that match the counters. Few looks are doubtful in most processes.
constexpr uint64_t kMostTries = 1 << 18;

enum class Grounds { kEdge, kRow, kNone };

struct Look {
  MmappedChunk chunk;
  Grounds grounds = Grounds::kNone;
  Address begin() const { return chunk.mapping_begin; }
  Address end() const { return chunk.mapping_begin + chunk.total; }
};
using Looks = std::vector<Look>;

struct Sums {
  uint64_t count = 0;
  uint64_t bytes = 0;
};

template <typename Kept>
Sums sums_of(const Looks& looks, Kept kept) {
  Sums sums;
  for (const Look& look : looks) {
    if (!kept(look)) continue;
    ++sums.count;
    sums.bytes += look.chunk.total;
  }
  return sums;
}

bool is_any(const Look&) {
  return true;
}
bool has_edge(const Look& look) {
  return look.grounds == Grounds::kEdge;
}
bool has_grounds(const Look& look) {
  return look.grounds != Grounds::kNone;
}

// What speaks for each of `chunks`, which are in ascending order.
Looks graded(const std::vector<MmappedChunk>& chunks, const AnonymousMemory& memory) {
  Looks looks;
  for (const MmappedChunk& chunk : chunks) looks.push_back({chunk, Grounds::kNone});
  std::set<Address> begins;
  std::set<Address> ends;
  for (const Look& look : looks) {
    begins.insert(look.begin());
    ends.insert(look.end());
  }
  std::set<Address> ends_of_edge;  // of rows that begin at an edge
  for (Look& look : looks) {
    if (memory.is_on_stack(look.begin())) continue;
    if (ends.contains(look.begin()) || begins.contains(look.end())) look.grounds = Grounds::kRow;
    if (!memory.is_edge(look.begin()) && !ends_of_edge.contains(look.begin())) continue;
    look.grounds = Grounds::kEdge;
    ends_of_edge.insert(look.end());
  }
  std::set<Address> begins_of_edge;  // of rows that end at an edge
  for (auto look = looks.rbegin(); look != looks.rend(); ++look) {
    if (memory.is_on_stack(look->begin())) continue;
    if (!begins_of_edge.contains(look->end()) && !memory.is_edge(look->end())) continue;
    look->grounds = Grounds::kEdge;
    begins_of_edge.insert(look->begin());
  }
  return looks;
}

// Which of two looks that overlap is taken.
enum class Conflict { kGroundsThenOuter, kOuter, kGroundsThenInner };

// Without overlaps, ascending.
Looks apart(const Looks& looks, Conflict conflict) {
  Looks order = looks;
  std::stable_sort(order.begin(), order.end(), [conflict](const Look& a, const Look& b) {
    if (conflict != Conflict::kOuter && a.grounds != b.grounds) return a.grounds < b.grounds;
    if (conflict == Conflict::kGroundsThenInner) return b.begin() < a.begin();
    return a.begin() < b.begin();
  });
  std::map<Address, Look> kept;
  for (const Look& look : order) {
    const auto next = kept.lower_bound(look.begin());
    if (next != kept.end() && next->first < look.end()) continue;
    if (next != kept.begin() && look.begin() < std::prev(next)->second.end()) continue;
    kept.emplace_hint(next, look.begin(), look);
  }
  Looks result;
  for (auto& [begin, look] : kept) result.push_back(look);
  return result;
}

template <typename Kept>
std::vector<MmappedChunk> chunks_of(const Looks& looks, Kept kept) {
  std::vector<MmappedChunk> chunks;
  for (const Look& look : looks) {
    if (kept(look)) chunks.push_back(look.chunk);
  }
  return chunks;
}

// All but the one chunk that is too many, when there is just one whose bytes are too many as well.
std::optional<Address> culprit(const Looks& looks, const MmappedCounts& counters) {
  const Sums sums = sums_of(looks, is_any);
  if (sums.count != counters.count + 1) return std::nullopt;
  std::optional<Address> found;
  for (const Look& look : looks) {
    if (!counters.matches(counters.count, sums.bytes - look.chunk.total)) continue;
    if (found) return std::nullopt;
    found = look.begin();
  }
  return found;
}

// Searches for some of the looks that match the counters. Looks of the same size and grounds are
// one group, of which any so many may be taken; groups for which more speaks are used up first.
class MatchSearch {
 public:
  MatchSearch(const Looks& looks, const MmappedCounts& counters)
      : looks_(looks), counters_(counters) {
    std::map<std::pair<Grounds, uint64_t>, uint64_t> counts;
    for (const Look& look : looks_) ++counts[{look.grounds, look.chunk.total}];
    for (const auto& [key, count] : counts) groups_.push_back({key.first, key.second, count});
    std::stable_sort(groups_.begin(), groups_.end(), [](const Group& a, const Group& b) {
      return a.grounds != b.grounds ? a.grounds < b.grounds : a.total > b.total;
    });
    bounds_.resize(groups_.size() + 1);
    for (size_t i = groups_.size(); i-- > 0;) {
      const Group& group = groups_[i];
      bounds_[i] = {bounds_[i + 1].count + group.count,
                    std::min(bounds_[i + 1].smallest, group.total),
                    std::max(bounds_[i + 1].largest, group.total)};
    }
    taken_.resize(groups_.size());
  }

  // The first choice; nothing when none matches, or none was found in time.
  std::optional<Looks> run() {
    // The drift of mmapped_mem is small in most processes, and any choice is within the largest.
    constexpr uint64_t kSmallDrift = 4095;
    for (const uint64_t drift : {kSmallDrift, counters_.drift_step * kMostDriftSteps}) {
      drift_ = counters_.drift_step == 0 ? 0 : drift;
      tries_ = kMostTries;
      search(0, counters_.count, counters_.bytes);
      if (!first_.empty() || counters_.drift_step == 0) break;
    }
    if (first_.empty()) return std::nullopt;
    return chosen();
  }

  // Whether another choice is as good as the first, for all that is known.
  bool is_doubtful() const {
    if (has_second_ || tries_ == 0) return true;
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (first_[i] != 0 && first_[i] != groups_[i].count) return true;
    }
    return false;
  }

 private:
  struct Group {
    Grounds grounds;
    uint64_t total = 0;
    uint64_t count = 0;
  };
  struct Bound {
    uint64_t count = 0;  // of looks from this group on, and how large they are
    uint64_t smallest = std::numeric_limits<uint64_t>::max();
    uint64_t largest = 0;
  };

  // Whether so many looks from group `i` on may have so many bytes.
  bool may_match(size_t i, uint64_t count, uint64_t bytes) const {
    const Bound& bound = bounds_[i];
    if (count == 0) return bytes <= drift_;
    return count <= bound.count && count <= bytes / bound.smallest &&
           (bytes <= drift_ || (bytes - drift_ + count - 1) / count <= bound.largest);
  }

  void search(size_t i, uint64_t count, uint64_t bytes) {
    if (tries_ == 0 || has_second_ || !may_match(i, count, bytes)) return;
    --tries_;
    if (count == 0) {
      if (!counters_.matches(counters_.count, counters_.bytes - bytes)) return;
      has_second_ = !first_.empty();
      if (first_.empty()) first_ = taken_;
      return;
    }
    const Group& group = groups_[i];
    for (uint64_t take = std::min(group.count, count) + 1; take-- > 0;) {
      if (take * group.total > bytes) continue;
      taken_[i] = take;
      search(i + 1, count - take, bytes - take * group.total);
    }
    taken_[i] = 0;
  }

  Looks chosen() const {
    std::map<std::pair<Grounds, uint64_t>, uint64_t> left;
    for (size_t i = 0; i < groups_.size(); ++i) {
      left[{groups_[i].grounds, groups_[i].total}] = first_[i];
    }
    Looks kept;
    for (const Look& look : looks_) {
      uint64_t& count = left[{look.grounds, look.chunk.total}];
      if (count == 0) continue;
      --count;
      kept.push_back(look);
    }
    return kept;
  }

  const Looks& looks_;
  const MmappedCounts& counters_;
  std::vector<Group> groups_;
  std::vector<Bound> bounds_;    // one more than groups
  std::vector<uint64_t> taken_;  // of each group, on the way
  std::vector<uint64_t> first_;
  bool has_second_ = false;
  uint64_t drift_ = 0;
  uint64_t tries_ = 0;
};

std::optional<MmappedChoice> matching(const Looks& looks, const MmappedCounts& counters) {
  for (const auto kept : {is_any, has_edge, has_grounds}) {
    const Sums sums = sums_of(looks, kept);
    if (counters.matches(sums.count, sums.bytes))
      return MmappedChoice{chunks_of(looks, kept), {}, {}};
  }
  MatchSearch search(looks, counters);
  const auto found = search.run();
  if (!found) return std::nullopt;
  MmappedChoice choice{chunks_of(*found, is_any), {}, {}};
  if (search.is_doubtful()) {
    choice.doubt = "of " + std::to_string(looks.size()) + " places that look like mmapped chunks " +
                   std::to_string(counters.count) +
                   " are, according to mp_: which ones is not certain";
  }
  return choice;
}

}  // namespace

bool MmappedCounts::matches(uint64_t their_count, uint64_t their_bytes) const {
  if (!is_known || their_count != count || their_bytes > bytes) return false;
  const uint64_t over = bytes - their_bytes;
  if (over == 0) return true;
  return drift_step != 0 && over % drift_step == 0 && over / drift_step <= kMostDriftSteps;
}

bool is_settled(const std::vector<MmappedChunk>& looks, const AnonymousMemory& memory,
                const MmappedCounts& counters) {
  if (!counters.is_known || looks.size() < counters.count) return false;
  const Looks candidates = apart(graded(looks, memory), Conflict::kGroundsThenOuter);
  for (const auto kept : {is_any, has_edge, has_grounds}) {
    const Sums sums = sums_of(candidates, kept);
    if (counters.matches(sums.count, sums.bytes)) return true;
  }
  return culprit(candidates, counters).has_value();
}

MmappedChoice believed_chunks(const std::vector<MmappedChunk>& looks, const AnonymousMemory& memory,
                              const MmappedCounts& counters) {
  const Looks all = graded(looks, memory);
  const Looks outer = apart(all, Conflict::kGroundsThenOuter);
  if (!counters.is_known) return {chunks_of(outer, has_edge), {}, {}};
  if (auto choice = matching(outer, counters)) return *choice;
  if (outer.size() != all.size()) {
    for (const Conflict conflict : {Conflict::kOuter, Conflict::kGroundsThenInner}) {
      if (auto choice = matching(apart(all, conflict), counters)) return *choice;
    }
  }

  const bool some_are_missing = outer.size() <= counters.count;  // then none is one too many
  MmappedChoice choice{chunks_of(outer, some_are_missing ? is_any : has_grounds), {}, {}};
  const Sums kept = sums_of(outer, some_are_missing ? is_any : has_grounds);
  choice.complaint = "mp_ counts " + std::to_string(counters.count) + " mmapped chunks of " +
                     std::to_string(counters.bytes) + " bytes, the search accepted " +
                     std::to_string(kept.count) + " of " + std::to_string(kept.bytes) + " bytes";
  if (kept.count != outer.size()) {
    choice.complaint += " and rejected " + std::to_string(outer.size() - kept.count) +
                        " places inside mappings that look like chunks";
  }
  return choice;
}

}  // namespace heapsnap
