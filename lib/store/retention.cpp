#include "store/retention.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "store/snapshot_name.h"

namespace heapsnap {

namespace {

constexpr int64_t kHour = 3600;
constexpr int64_t kDay = 24 * kHour;
constexpr int64_t kWeek = 7 * kDay;
// 1970 began on a Thursday: three days before it began a week.
constexpr int64_t kMondayOffset = 3 * kDay;

int64_t floor_divide(int64_t number, int64_t by) {
  return number / by - (number % by < 0 ? 1 : 0);
}

// The indices of one folder's files, newest first.
using NewestFirst = std::vector<size_t>;

// Keeps what a count by periods of `length` seconds keeps.
void keep_by_period(const std::vector<RetainedFile>& files, const NewestFirst& folder,
                    uint64_t count, int64_t length, int64_t offset, std::vector<Fate>& fates) {
  std::set<int64_t> periods;
  std::set<std::pair<int64_t, int>> taken;
  for (const size_t index : folder) {
    const int64_t period = floor_divide(files[index].time_s + offset, length);
    if (!periods.contains(period)) {
      if (periods.size() >= count) break;
      periods.insert(period);
    }
    if (taken.insert({period, files[index].pid}).second) fates[index] = Fate::kKept;
  }
}

void keep_by_counts(const RetentionRules& rules, const std::vector<RetainedFile>& files,
                    const NewestFirst& folder, std::vector<Fate>& fates) {
  const auto newest =
      static_cast<ptrdiff_t>(std::min<uint64_t>(rules.last.value_or(0), folder.size()));
  std::for_each(folder.begin(), folder.begin() + newest,
                [&](size_t index) { fates[index] = Fate::kKept; });
  if (rules.hourly) keep_by_period(files, folder, *rules.hourly, kHour, 0, fates);
  if (rules.daily) keep_by_period(files, folder, *rules.daily, kDay, 0, fates);
  if (rules.weekly) keep_by_period(files, folder, *rules.weekly, kWeek, kMondayOffset, fates);
}

// Takes the oldest away until the rest fits.
void fit_into(uint64_t most, const std::vector<RetainedFile>& files,
              const std::set<size_t>& newest_of_folders, std::vector<Fate>& fates) {
  uint64_t bytes = 0;
  std::vector<size_t> oldest_first;
  for (size_t i = 0; i < files.size(); ++i) {
    if (fates[i] != Fate::kKept) continue;
    bytes += std::min(files[i].bytes, UINT64_MAX - bytes);
    if (!newest_of_folders.contains(i)) oldest_first.push_back(i);
  }
  std::sort(oldest_first.begin(), oldest_first.end(), [&](size_t a, size_t b) {
    return std::tie(files[a].time_s, a) < std::tie(files[b].time_s, b);
  });
  for (const size_t index : oldest_first) {
    if (bytes <= most) return;
    bytes -= std::min(bytes, files[index].bytes);
    fates[index] = Fate::kNoRoom;
  }
}

}  // namespace

const char* to_string(Fate fate) {
  switch (fate) {
    case Fate::kKept: return "kept";
    case Fate::kNotCounted: return "no count of keep holds it";
    case Fate::kTooOld: return "older than max_age";
    case Fate::kNoRoom: return "the store is larger than max_bytes";
    case Fate::kInFuture: return "its time is in the future: the clock was set back";
  }
  return "kept";
}

std::vector<Fate> plan_retention(const RetentionRules& rules,
                                 const std::vector<RetainedFile>& files, int64_t now_s) {
  std::vector<Fate> fates(files.size(), rules.has_counts() ? Fate::kNotCounted : Fate::kKept);
  NewestFirst order;
  for (size_t i = 0; i < files.size(); ++i) {
    if (is_in_future(files[i].time_s, now_s)) {
      fates[i] = Fate::kInFuture;
    } else {
      order.push_back(i);
    }
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tuple(files[a].folder, -files[a].time_s, -files[a].pid, a) <
           std::tuple(files[b].folder, -files[b].time_s, -files[b].pid, b);
  });
  std::set<size_t> newest_of_folders;
  for (auto begin = order.begin(); begin != order.end();) {
    const auto end = std::find_if(
        begin, order.end(), [&](size_t i) { return files[i].folder != files[*begin].folder; });
    const NewestFirst folder(begin, end);
    if (rules.has_counts()) keep_by_counts(rules, files, folder, fates);
    newest_of_folders.insert(folder.front());
    fates[folder.front()] = Fate::kKept;
    for (const size_t index : folder) {
      const bool is_old = rules.max_age_s && now_s - files[index].time_s > *rules.max_age_s;
      if (is_old && fates[index] == Fate::kKept && index != folder.front()) {
        fates[index] = Fate::kTooOld;
      }
    }
    begin = end;
  }
  if (rules.max_bytes) fit_into(*rules.max_bytes, files, newest_of_folders, fates);
  return fates;
}

}  // namespace heapsnap
