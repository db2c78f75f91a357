// The history for machines: JSON, and the text format of Prometheus.
#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "report/history_report.h"
#include "report/json_writer.h"
#include "report/number_text.h"
#include "report/utf8.h"

namespace heapsnap {

namespace {

constexpr double kDaySeconds = 86400;
constexpr double kUnknownValue = -1;  // in JSON

void slope_member(JsonWriter& json, const std::optional<Slope>& slope) {
  json.key("slope");
  json.begin_object();
  if (slope) {
    json.member("per_day", slope->per_second * kDaySeconds);
    if (slope->interval) {
      json.member("low_per_day", slope->interval->low * kDaySeconds);
      json.member("high_per_day", slope->interval->high * kDaySeconds);
    }
  }
  json.end_object();
}

std::string time_after(int64_t time_ns, double seconds) {
  constexpr double kFarthest = 200 * 365 * kDaySeconds;
  return time_text(time_ns + static_cast<int64_t>(std::min(seconds, kFarthest) * 1e9), 1);
}

void run_object(JsonWriter& json, const HistoryRun& run) {
  json.begin_object();
  json.member("pid", run.pid);
  json.member("start_time", run.start_time_ticks);
  json.member("boot_id", run.boot_id);
  json.member("exe", run.exe);
  json.member("build_id", run.build_id);
  json.member("begin", to_string(run.begin));
  json.member("snapshots", run.snapshots);
  json.member("first", time_text(run.first_ns, 3));
  json.member("last", time_text(run.last_ns, 3));
  json.member("first_rss", run.first_rss);
  json.member("last_rss", run.last_rss);
  json.member("followed", run.is_followed);
  slope_member(json, run.slope);
  json.end_object();
}

// A value of a label, as the text format wants it: UTF-8, or the whole file is refused.
std::string label_value(const std::string& text) {
  std::string value;
  for (const char c : valid_utf8(text)) {
    if (c == '\n') {
      value += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') value += '\\';
    value += c;
  }
  return value;
}

class Metrics {
 public:
  Metrics(Writer& out, std::span<const NamedHistory> histories)
      : out_(out), histories_(histories) {}

  // A metric with one value a target, or none.
  void gauge(const char* name, const char* help,
             const std::function<std::optional<double>(const GrowthHistory&)>& value_of) {
    begin(name, help);
    for (const NamedHistory& each : histories_) {
      if (const auto value = value_of(each.history)) sample(name, each.name, "", *value);
    }
  }

  // One value for each series of a kind.
  void series(const char* name, const char* help, const char* label, SeriesKind kind) {
    begin(name, help);
    for (const NamedHistory& each : histories_) {
      for (const HistorySeries& one : each.history.series) {
        if (one.kind != kind || !one.values.back()) continue;
        sample(name, each.name, fmt::format(",{}=\"{}\"", label, label_value(one.name)),
               *one.values.back());
      }
    }
  }

 private:
  void begin(const char* name, const char* help) {
    out_.write(fmt::format("# HELP {} {}\n# TYPE {} gauge\n", name, help, name));
  }
  void sample(const char* name, const std::string& target, const std::string& more, double value) {
    out_.write(fmt::format("{}{{target=\"{}\"{}}} {}\n", name, label_value(target), more, value));
  }

  Writer& out_;
  std::span<const NamedHistory> histories_;
};

}  // namespace

void print_json_history(Writer& out, const NamedHistory& named, double tolerance_per_day) {
  const GrowthHistory& history = named.history;
  JsonWriter json(out);
  json.begin_object();
  json.member("kind", "history");
  json.member("version", 1);
  json.member("name", named.name);
  json.member("comm", history.comm);
  json.member("host", history.host);
  json.member("restarts", history.restarts);
  json.member("upgrades", history.upgrades);
  json.member("beside", history.beside);
  json.member("grows", history.grows(tolerance_per_day));
  json.member("trend", to_string(history.trend));
  json.member("observed_seconds", history.observed.seconds);
  json.member("change", history.observed.change);
  json.key("runs");
  json.begin_array();
  for (const HistoryRun& run : history.runs) run_object(json, run);
  json.end_array();
  json.key("points");
  json.begin_array();
  for (const HistoryPoint& point : history.points) {
    json.begin_object();
    json.member("time", time_text(point.time_ns, 3));
    json.member("run", point.run);
    json.member("snapshot", point.path);
    json.end_object();
  }
  json.end_array();
  json.key("series");
  json.begin_array();
  for (const HistorySeries& series : history.series) {
    json.begin_object();
    json.member("of", to_string(series.kind));
    json.member("name", series.name);
    json.key("values");
    json.begin_array();
    for (const auto& value : series.values) json.value(value.value_or(kUnknownValue));
    json.end_array();
    slope_member(json, series.slope);
    json.end_object();
  }
  json.end_array();
  if (history.forecast) {
    const HistoryForecast& forecast = *history.forecast;
    const int64_t last = history.points.back().time_ns;
    json.key("forecast");
    json.begin_object();
    json.member("limit", forecast.limit);
    json.member("level", forecast.level);
    json.member("seconds", forecast.seconds);
    json.member("at", time_after(last, forecast.seconds));
    json.member("soonest", time_after(last, forecast.soonest));
    if (forecast.latest) json.member("latest", time_after(last, *forecast.latest));
    json.end_object();
  }
  json.key("unread");
  json.begin_array();
  for (const std::string& why : history.unread) json.value(why);
  json.end_array();
  json.end_object();
  out.write("\n");
}

void print_history_metrics(Writer& out, std::span<const NamedHistory> histories,
                           double tolerance_per_day) {
  using History = const GrowthHistory&;
  Metrics metrics(out, histories);
  metrics.gauge("heapsnap_snapshots", "Snapshots in the history of the target.",
                [](History h) { return static_cast<double>(h.points.size()); });
  metrics.gauge("heapsnap_unreadable_snapshots", "Snapshots of the target that cannot be read.",
                [](History h) { return static_cast<double>(h.unread.size()); });
  metrics.gauge("heapsnap_last_snapshot_timestamp_seconds",
                "When the newest snapshot was taken, in seconds since 1970.", [](History h) {
                  const auto milliseconds = h.points.back().time_ns / 1'000'000;
                  return static_cast<double>(milliseconds) / 1e3;
                });
  metrics.gauge("heapsnap_restarts", "Restarts of the target within the history.",
                [](History h) { return static_cast<double>(h.restarts); });
  metrics.gauge("heapsnap_upgrades", "Changes of the target's program within the history.",
                [](History h) { return static_cast<double>(h.upgrades); });
  metrics.gauge("heapsnap_resident_bytes", "Resident memory in the newest snapshot.",
                [](History h) { return h.resident().values.back(); });
  metrics.gauge("heapsnap_observed_seconds",
                "How long the processes of the newest build were observed.",
                [](History h) { return h.observed.seconds; });
  // Without a trend there is no rate that an alert may be based on.
  const auto slope = [](History h) {
    const bool tells = h.trend != Trend::kTooShort && h.trend != Trend::kTooFew;
    return tells ? h.resident().slope : std::nullopt;
  };
  metrics.gauge("heapsnap_resident_growth_bytes_per_second",
                "Growth of resident memory, by Theil and Sen's slope, if observed for long enough.",
                [&](History h) -> std::optional<double> {
                  if (!slope(h)) return std::nullopt;
                  return slope(h)->per_second;
                });
  metrics.gauge("heapsnap_resident_growth_low_bytes_per_second",
                "Lower end of the 95 percent interval of the growth.",
                [&](History h) -> std::optional<double> {
                  if (!slope(h) || !slope(h)->interval) return std::nullopt;
                  return slope(h)->interval->low;
                });
  metrics.gauge("heapsnap_resident_growth_high_bytes_per_second",
                "Upper end of the 95 percent interval of the growth.",
                [&](History h) -> std::optional<double> {
                  if (!slope(h) || !slope(h)->interval) return std::nullopt;
                  return slope(h)->interval->high;
                });
  metrics.gauge("heapsnap_grows",
                "1 where memory grows, certainly and by more than the tolerance, else 0.",
                [&](History h) { return h.grows(tolerance_per_day) ? 1.0 : 0.0; });
  metrics.gauge("heapsnap_limit_reached_timestamp_seconds",
                "When the memory limit is reached at this growth, if soon, in seconds since 1970.",
                [](History h) -> std::optional<double> {
                  if (!h.forecast) return std::nullopt;
                  return static_cast<double>(h.points.back().time_ns) / 1e9 + h.forecast->seconds;
                });
  metrics.series("heapsnap_account_resident_bytes",
                 "Resident memory by what it is used for, in the newest snapshot.", "row",
                 SeriesKind::kAccount);
  metrics.series("heapsnap_retained_bytes",
                 "What a variable or thread keeps alive, in the newest snapshot.", "owner",
                 SeriesKind::kOwner);
  metrics.series("heapsnap_type_bytes", "Blocks in use by type, in the newest snapshot.", "type",
                 SeriesKind::kType);
  metrics.series("heapsnap_class_bytes",
                 "Objects of a language runtime by class, with their buffers, in the newest "
                 "snapshot.",
                 "class", SeriesKind::kClass);
  metrics.series("heapsnap_leaked_bytes", "What no root leads to, in the newest snapshot.", "what",
                 SeriesKind::kLeaked);
}

}  // namespace heapsnap
