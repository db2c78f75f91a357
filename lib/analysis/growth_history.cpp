#include "analysis/growth_history.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "analysis/block_facts.h"
#include "analysis/heap_summary.h"
#include "analysis/object_census.h"
#include "analysis/owner_sums.h"
#include "analysis/passed_frames.h"
#include "analysis/program_build.h"
#include "analysis/rss_account.h"
#include "analysis/stack_census.h"
#include "analysis/stack_groups.h"

namespace heapsnap {

namespace {

constexpr double kSecondsADay = 86400;
// Series of these kinds: those that are largest anywhere.
constexpr SeriesKind kRankedKinds[] = {SeriesKind::kArena, SeriesKind::kFunction,
                                       SeriesKind::kOwner, SeriesKind::kType, SeriesKind::kClass};
constexpr size_t kMostOfAKind = 64;
constexpr const char* kResidentName = "resident memory";
constexpr const char* kLeakedName = "leaked memory";

using Values = std::map<std::pair<SeriesKind, std::string>, double>;
using SeriesKey = std::pair<SeriesKind, std::string>;

double seconds_of(int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}

void add_functions(const SnapshotReader& snapshot, const SnapshotStreams& streams, Values& values) {
  const RecordedStacks recorded = snapshot.read_call_stacks();
  const StackCensus census = take_stack_census(streams, recorded.stacks);
  const FunctionGroups functions =
      group_by_function(census, recorded, *snapshot.metadata().tracker, PassedFrames());
  for (const StackGroup& group : functions.groups) {
    values[{SeriesKind::kFunction, group.name}] += group.live_bytes;
  }
}

void add_owners(const SnapshotStreams& streams, const ReferenceStreams& references, NameScope scope,
                Values& values) {
  const OwnerSums sums = sum_owners(streams, references);
  const RootNames names(*streams.metadata, scope);
  for (const OwnerSum& owner : sums.owners) {
    values[{SeriesKind::kOwner, owner_name(owner, sums, names)}] +=
        static_cast<double>(owner.retained.bytes);
  }
  values[{SeriesKind::kLeaked, kLeakedName}] = static_cast<double>(sums.leaked.bytes);
}

void add_types(const SnapshotStreams& streams, const ReferenceStreams& references, Values& values) {
  const BlockColumns columns = read_block_columns(streams, std::nullopt);
  const auto types = read_types(references, static_cast<BlockNumber>(columns.sizes.size()));
  std::vector<uint64_t> sums(references.types.size());
  for (BlockNumber block = 0; block < types.size(); ++block) {
    if (columns.is_mallocs_own(block)) continue;
    if (types[block] < sums.size()) sums[types[block]] += columns.sizes[block];
  }
  for (size_t type = 1; type < sums.size(); ++type) {
    const std::string& name = references.types[type].name;
    // Those of a runtime are classes.
    if (references.types[type].source == TypeSource::kRuntime) continue;
    if (!name.empty()) values[{SeriesKind::kType, name}] += static_cast<double>(sums[type]);
  }
}

void add_classes(const RuntimeModel& model, Values& values) {
  for (const RuntimeClass& row : model.classes) {
    values[{SeriesKind::kClass, row.name}] += static_cast<double>(all_bytes(row));
  }
}

bool overlap(const HistoryRun& a, const HistoryRun& b) {
  if (a.first_ns <= b.last_ns && b.first_ns <= a.last_ns) return true;
  // The later one ran before the earlier one did.
  const auto& [early, late] = a.first_ns < b.first_ns ? std::tie(a, b) : std::tie(b, a);
  return !a.boot_id.empty() && a.boot_id == b.boot_id &&
         late.start_time_ticks < early.start_time_ticks;
}

// `now`: a HistoryRun or a Process.
template <typename Now>
bool is_other_build(const HistoryRun& before, const Now& now) {
  return is_other_build(ProgramBuild{before.exe, before.build_id},
                        ProgramBuild{now.exe, now.build_id});
}

}  // namespace

const char* to_string(SeriesKind kind) {
  switch (kind) {
    case SeriesKind::kResident: return "resident";
    case SeriesKind::kAccount: return "account";
    case SeriesKind::kSize: return "size";
    case SeriesKind::kArena: return "arena";
    case SeriesKind::kFunction: return "function";
    case SeriesKind::kOwner: return "owner";
    case SeriesKind::kType: return "type";
    case SeriesKind::kLeaked: return "leaked";
    case SeriesKind::kClass: return "class";
  }
  return "unknown";
}

const char* to_string(RunBegin begin) {
  switch (begin) {
    case RunBegin::kFirst: return "first";
    case RunBegin::kRestart: return "restart";
    case RunBegin::kUpgrade: return "upgrade";
    case RunBegin::kBeside: return "beside";
  }
  return "unknown";
}

bool GrowthHistory::grows(double tolerance_per_day) const {
  const auto& slope = resident().slope;
  return trend == Trend::kGrows && slope && slope->interval &&
         slope->interval->low * kSecondsADay > tolerance_per_day;
}

void GrowthHistoryBuilder::add(const SnapshotReader& snapshot, const std::string& path) {
  const SnapshotMetadata& metadata = snapshot.metadata();
  const Process& process = metadata.process;
  const Identity identity{process.boot_id, process.pid, process.start_time_ticks,
                          process.taken_at_ns};
  if (added_.contains(identity)) return;
  const SnapshotStreams streams = streams_of(snapshot);
  const HeapSummary summary = summarize(streams);
  const RssAccount account = account_rss(metadata, summary);
  Sample sample;
  sample.time_ns = metadata.process.taken_at_ns;
  sample.path = path;
  sample.process = metadata.process;
  sample.memory_left = metadata.memory_left;
  const uint64_t resident =
      metadata.process.rss != 0 ? metadata.process.rss : account.total.resident;
  sample.process.rss = resident;
  sample.values[{SeriesKind::kResident, kResidentName}] = static_cast<double>(resident);
  for (int row = 0; row < kRssRowCount; ++row) {
    const auto each = static_cast<RssRow>(row);
    sample.values[{SeriesKind::kAccount, to_string(each)}] =
        static_cast<double>(account[each].resident);
  }
  for (const SizeClass& each : summary.used_sizes) {
    sample.values[{SeriesKind::kSize, size_class_name(each)}] =
        static_cast<double>(each.used.bytes);
  }
  for (size_t i = 0; i < metadata.heap.arenas.size(); ++i) {
    sample.values[{SeriesKind::kArena, "arena " + std::to_string(i)}] =
        static_cast<double>(metadata.heap.arenas[i].system_mem);
  }
  if (metadata.tracker) {
    sample.has_functions = true;
    add_functions(snapshot, streams, sample.values);
  }
  if (snapshot.has_references()) {
    sample.has_references = true;
    const ReferenceStreams references = references_of(snapshot);
    add_owners(streams, references, scope_, sample.values);
    add_types(streams, references, sample.values);
  }
  if (!metadata.runtimes.classes.empty()) {
    sample.has_classes = true;
    add_classes(metadata.runtimes, sample.values);
  }
  samples_.push_back(std::move(sample));
  // A core has no boot id, and its time is that of a file.
  if (!process.boot_id.empty()) added_.insert(identity);
}

bool GrowthHistoryBuilder::Sample::knows(SeriesKind kind) const {
  switch (kind) {
    case SeriesKind::kFunction: return has_functions;
    case SeriesKind::kOwner:
    case SeriesKind::kType:
    case SeriesKind::kLeaked: return has_references;
    case SeriesKind::kClass: return has_classes;
    default: return true;
  }
}

namespace {

// The names of one kind that are largest in any sample.
template <typename Samples>
std::set<SeriesKey> names_of_series(const Samples& samples) {
  std::map<SeriesKey, double> largest;
  for (const auto& sample : samples) {
    for (const auto& [key, value] : sample.values) {
      double& most = largest[key];
      most = std::max(most, value);
    }
  }
  std::set<SeriesKey> names;
  for (const SeriesKind kind : kRankedKinds) {
    std::vector<std::pair<double, SeriesKey>> ranked;
    for (const auto& [key, value] : largest) {
      if (key.first == kind && value > 0) ranked.emplace_back(-value, key);
    }
    std::sort(ranked.begin(), ranked.end());
    ranked.resize(std::min(ranked.size(), kMostOfAKind));
    for (const auto& [value, key] : ranked) names.insert(key);
  }
  for (const auto& [key, value] : largest) {
    const bool is_ranked = std::find(std::begin(kRankedKinds), std::end(kRankedKinds), key.first) !=
                           std::end(kRankedKinds);
    if (!is_ranked && (value > 0 || key.first == SeriesKind::kResident)) names.insert(key);
  }
  return names;
}

void classify_runs(std::vector<HistoryRun>& runs) {
  const HistoryRun* before = nullptr;
  for (HistoryRun& run : runs) {
    const bool is_beside = std::any_of(runs.begin(), runs.end(), [&](const HistoryRun& other) {
      return &other != &run && overlap(other, run);
    });
    if (before == nullptr) {
      run.begin = RunBegin::kFirst;
    } else if (is_beside) {
      run.begin = RunBegin::kBeside;
    } else {
      run.begin = is_other_build(*before, run) ? RunBegin::kUpgrade : RunBegin::kRestart;
    }
    before = &run;
  }
}

// All runs that come one after the other, or of those side by side the one that grows fastest.
void choose_followed(std::vector<HistoryRun>& runs) {
  const bool side_by_side = std::any_of(runs.begin(), runs.end(), [](const HistoryRun& run) {
    return run.begin == RunBegin::kBeside;
  });
  if (!side_by_side) {
    for (HistoryRun& run : runs) run.is_followed = true;
    return;
  }
  const auto growth = [](const HistoryRun& run) {
    return std::tuple(run.slope.has_value(), run.slope ? run.slope->per_second : 0.0, run.last_rss);
  };
  std::max_element(runs.begin(), runs.end(), [&](const HistoryRun& a, const HistoryRun& b) {
    return growth(a) < growth(b);
  })->is_followed = true;
}

// `newest_build`: index of its first run.
Observation observe(const std::vector<HistoryRun>& runs, size_t newest_build) {
  Observation observed;
  for (size_t i = newest_build; i < runs.size(); ++i) {
    const HistoryRun& run = runs[i];
    if (!run.is_followed) continue;
    observed.seconds += seconds_of(run.last_ns - run.first_ns);
    observed.change += static_cast<double>(run.last_rss) - static_cast<double>(run.first_rss);
    observed.last = static_cast<double>(run.last_rss);
  }
  return observed;
}

}  // namespace

GrowthHistory GrowthHistoryBuilder::finish(const TrendBounds& bounds) {
  GrowthHistory history;
  history.unread = std::move(unread_);
  std::stable_sort(samples_.begin(), samples_.end(),
                   [](const Sample& a, const Sample& b) { return a.time_ns < b.time_ns; });
  std::vector<size_t> run_of;
  std::map<std::tuple<std::string, int, uint64_t>, size_t> known;
  std::vector<std::vector<TimedValue>> rss_of_runs;
  for (const Sample& sample : samples_) {
    const Process& process = sample.process;
    const auto [place, is_new] = known.try_emplace(
        {process.boot_id, process.pid, process.start_time_ticks}, history.runs.size());
    if (is_new || is_other_build(history.runs[place->second], process)) {
      place->second = history.runs.size();
      HistoryRun run;
      run.pid = process.pid;
      run.start_time_ticks = process.start_time_ticks;
      run.boot_id = process.boot_id;
      run.exe = process.exe;
      run.build_id = process.build_id;
      run.first_ns = sample.time_ns;
      run.first_rss = process.rss;
      history.runs.push_back(std::move(run));
      rss_of_runs.emplace_back();
    }
    HistoryRun& run = history.runs[place->second];
    ++run.snapshots;
    run.last_ns = sample.time_ns;
    run.last_rss = process.rss;
    run_of.push_back(place->second);
    rss_of_runs[place->second].push_back(
        {seconds_of(sample.time_ns), static_cast<double>(process.rss), 0});
  }
  for (size_t i = 0; i < history.runs.size(); ++i) {
    history.runs[i].slope = fit_slope(rss_of_runs[i]);
  }
  classify_runs(history.runs);
  choose_followed(history.runs);
  size_t newest_build = 0;
  for (size_t i = 0; i < history.runs.size(); ++i) {
    const RunBegin begin = history.runs[i].begin;
    history.restarts += begin == RunBegin::kRestart ? 1 : 0;
    history.beside += begin == RunBegin::kBeside ? 1 : 0;
    if (begin != RunBegin::kUpgrade) continue;
    ++history.upgrades;
    if (history.runs[i].is_followed) newest_build = i;
  }

  std::vector<const Sample*> followed;
  for (size_t i = 0; i < samples_.size(); ++i) {
    if (!history.runs[run_of[i]].is_followed) continue;
    followed.push_back(&samples_[i]);
    history.points.push_back({samples_[i].time_ns, run_of[i], samples_[i].path});
  }
  const Process& last = followed.back()->process;
  history.comm = last.comm;
  history.host = last.hostname;

  for (const SeriesKey& key : names_of_series(samples_)) {
    HistorySeries series{key.first, key.second, {}, {}};
    std::vector<TimedValue> fitted;
    for (size_t i = 0; i < followed.size(); ++i) {
      const auto value = followed[i]->values.find(key);
      if (!followed[i]->knows(key.first)) {
        series.values.emplace_back();
        continue;
      }
      series.values.emplace_back(value == followed[i]->values.end() ? 0 : value->second);
      const HistoryPoint& point = history.points[i];
      if (point.run >= newest_build) {
        fitted.push_back({seconds_of(point.time_ns), *series.values.back(), point.run});
      }
    }
    series.slope = fit_slope(fitted);
    history.series.push_back(std::move(series));
  }
  std::stable_sort(history.series.begin(), history.series.end(),
                   [](const HistorySeries& a, const HistorySeries& b) {
                     const auto rank = [](const HistorySeries& each) {
                       return std::tuple(each.kind != SeriesKind::kResident,
                                         each.slope ? -each.slope->per_second : 0.0);
                     };
                     return rank(a) < rank(b);
                   });

  const auto& slope = history.resident().slope;
  history.observed = observe(history.runs, newest_build);
  history.trend = judge_trend(slope, history.observed, bounds);
  const double reach = kForecastReach * history.observed.seconds;
  const auto& left = followed.back()->memory_left;
  if (!left || history.trend != Trend::kGrows) return history;
  if (static_cast<double>(left->bytes) / slope->per_second > reach) {
    history.far_limit = left->limit;
  } else {
    const auto bytes = static_cast<double>(left->bytes);
    HistoryForecast forecast;
    forecast.limit = left->limit;
    forecast.level = static_cast<double>(last.rss) + bytes;
    forecast.seconds = bytes / slope->per_second;
    forecast.soonest = bytes / slope->interval->high;
    if (const double latest = bytes / slope->interval->low; latest <= reach) {
      forecast.latest = latest;
    }
    history.forecast = std::move(forecast);
  }
  return history;
}

}  // namespace heapsnap
