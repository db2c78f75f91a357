// What became of a program's memory over many snapshots.
//
// A run is one process, from its start to its end or until it executes another program: what
// follows is a restart, or an upgrade where the program's build changed. Growth is measured within
// runs of the newest build only, so that neither a restart nor an upgrade is taken for shrinking.
//
//   run 1 (build a)   ▁▂▃▄▅     run 2 (a)  ▁▂▃▄     run 3 (b)  ▁▂▃▄▅▆
//                          `- restart           `- upgrade: fitted from here on
//
// Where several processes run side by side (all = true), the one that grows fastest is followed.
// A process that started before another one did, of which there is an earlier snapshot, ran beside
// it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "analysis/diff_names.h"
#include "analysis/growth_trend.h"
#include "analysis/robust_slope.h"
#include "snapshot/snapshot_reader.h"

namespace heapsnap {

// Values are printed.
enum class SeriesKind : uint8_t {
  kResident = 0,
  kAccount = 1,
  kSize = 2,
  kArena = 3,
  kFunction = 4,  // live bytes that are charged to it
  kOwner = 5,     // what a root retains
  kType = 6,      // bytes of the blocks of a type
  kLeaked = 7,    // what no root leads to
  kClass = 8,     // objects of a language runtime, with their buffers
};
// "resident", "account", "size", "arena", "function", "owner", "type", "leaked", "class"
const char* to_string(SeriesKind kind);

enum class RunBegin : uint8_t { kFirst, kRestart, kUpgrade, kBeside };
const char* to_string(RunBegin begin);  // "first", "restart", "upgrade", "beside"

struct HistoryRun {
  int pid = 0;
  uint64_t start_time_ticks = 0;
  std::string boot_id;
  std::string exe;
  std::string build_id;  // empty: unknown
  RunBegin begin = RunBegin::kFirst;
  size_t snapshots = 0;
  int64_t first_ns = 0;
  int64_t last_ns = 0;
  uint64_t first_rss = 0;
  uint64_t last_rss = 0;
  std::optional<Slope> slope;  // of its resident memory
  bool is_followed = false;    // its points are in the series
};

struct HistoryPoint {
  int64_t time_ns = 0;
  size_t run = 0;
  std::string path;
};

struct HistorySeries {
  SeriesKind kind = SeriesKind::kResident;
  std::string name;                           // "bins", "112 B", "arena 3", "parse", "g_cache"
  std::vector<std::optional<double>> values;  // bytes, as GrowthHistory::points
  std::optional<Slope> slope;                 // of the newest build
};

struct HistoryForecast {
  std::string limit;             // which one
  double level = 0;              // resident bytes at which it is reached
  double seconds = 0;            // from the last snapshot on
  double soonest = 0;            // by the interval of the slope
  std::optional<double> latest;  // not there if it is beyond the forecast's reach
};

struct GrowthHistory {
  std::string comm;
  std::string host;
  std::vector<HistoryRun> runs;
  std::vector<HistoryPoint> points;   // of the runs that are followed, by time
  std::vector<HistorySeries> series;  // resident memory first, then by growth
  Observation observed;               // of resident memory
  Trend trend = Trend::kTooFew;
  std::optional<HistoryForecast> forecast;  // only where it grows, and within the reach
  std::string far_limit;                    // the limit that is beyond the reach; else empty
  size_t restarts = 0;
  size_t upgrades = 0;
  size_t beside = 0;
  std::vector<std::string> unread;  // snapshots that could not be read, with the reason

  const HistorySeries& resident() const { return series.front(); }
  // The newest of those that are followed.
  const HistoryRun& last_run() const { return runs[points.back().run]; }
  // By `trend`, and by more than `tolerance` bytes a day, by the lower end of the interval.
  bool grows(double tolerance_per_day) const;
};

class GrowthHistoryBuilder {
 public:
  // `scope`: of the names of owners, that hold for all snapshots.
  explicit GrowthHistoryBuilder(NameScope scope) : scope_(scope) {}

  // Reads all of the snapshot. A copy of one that was added says nothing new, and is left out.
  // Throws Error{kBadInput}.
  void add(const SnapshotReader& snapshot, const std::string& path);
  void add_unread(std::string why) { unread_.push_back(std::move(why)); }
  size_t size() const { return samples_.size(); }

  // To be called once, when there is a sample.
  GrowthHistory finish(const TrendBounds& bounds);

 private:
  struct Sample {
    int64_t time_ns = 0;
    std::string path;
    Process process;
    std::optional<MemoryLeft> memory_left;
    std::map<std::pair<SeriesKind, std::string>, double> values;
    bool has_functions = false;
    bool has_references = false;
    bool has_classes = false;

    // Whether it says something of such a series.
    bool knows(SeriesKind kind) const;
  };

  // What tells a snapshot from others: boot, pid, start time, and when it was taken.
  using Identity = std::tuple<std::string, int, uint64_t, int64_t>;

  NameScope scope_;
  std::vector<Sample> samples_;
  std::set<Identity> added_;
  std::vector<std::string> unread_;
};

}  // namespace heapsnap
