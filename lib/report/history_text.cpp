#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/history_report.h"
#include "report/number_text.h"
#include "report/rss_row_text.h"
#include "report/sparkline.h"
#include "report/terminal_text.h"
#include "report/text_table.h"

namespace heapsnap {

namespace {

constexpr double kSecondsPerDay = 86400;
constexpr size_t kTrendWidth = 14;
constexpr size_t kBuildDigits = 8;
constexpr size_t kListedRuns = 12;
constexpr size_t kListedUnread = 5;

std::string short_value_text(const std::optional<double>& value) {
  return value ? short_size_text(static_cast<uint64_t>(*value)) : "-";
}

bool changes(const HistorySeries& series) {
  return std::any_of(series.values.begin(), series.values.end(),
                     [&](const auto& value) { return value != series.values.front(); });
}

std::string value_text(const std::optional<double>& value) {
  return value ? size_text(static_cast<uint64_t>(*value)) : "-";
}

std::string date_text(int64_t now_ns, double seconds_from_now) {
  constexpr double kFarthestSeconds = 200 * 365 * kSecondsPerDay;
  const double at =
      static_cast<double>(now_ns) / 1e9 + std::min(seconds_from_now, kFarthestSeconds);
  const std::string time = time_text(static_cast<int64_t>(at * 1e9), 1);
  return seconds_from_now < 2 * kSecondsPerDay ? time.substr(0, 16) + "Z" : time.substr(0, 10);
}

// Of the change, as a percentage of what there was before.
double share_of_before(const Observation& observed) {
  const double before = observed.last - observed.change;
  return before > 0 ? std::abs(observed.change) / before : 0;
}

// As the report calls the row.
std::string account_label(const std::string& name) {
  for (int row = 0; row < kRssRowCount; ++row) {
    const auto each = static_cast<RssRow>(row);
    if (name == to_string(each)) return rss_row_text(each);
  }
  return name;
}

std::string label(const HistorySeries& series) {
  switch (series.kind) {
    case SeriesKind::kResident: return "resident";
    case SeriesKind::kAccount: return account_label(series.name);
    case SeriesKind::kSize: return "blocks of " + series.name;
    case SeriesKind::kArena: return series.name;
    case SeriesKind::kFunction: return "allocated by " + printable(series.name);
    case SeriesKind::kOwner: return "held by " + printable(series.name);
    case SeriesKind::kType: return "type " + printable(series.name);
    case SeriesKind::kLeaked: return "leaked";
    case SeriesKind::kClass: return "objects of " + printable(series.name);
  }
  return series.name;
}

// "memory of this machine": what happens when it is reached.
std::string limit_event(const std::string& limit) {
  if (limit == "memory of this machine") return "this machine runs out of memory";
  return "the " + printable(limit) + " is reached";
}

class HistoryPage {
 public:
  HistoryPage(Writer& out, const NamedHistory& named, const HistoryTextOptions& options)
      : out_(out),
        history_(named.history),
        name_(named.name),
        options_(options),
        ink_(options.style.color),
        unit_(rate_unit(named.history.observed.seconds)) {}

  void print() {
    print_head();
    print_series();
    if (history_.runs.size() > 1) print_runs();
    print_unread();
  }

 private:
  void field(const std::string& name, const std::string& text) {
    constexpr size_t kIndent = 13;
    std::string before = fmt::format("  {:<{}}", name, kIndent - 2);
    for (const std::string& line : wrapped(text, options_.style.width - kIndent)) {
      out_.write(before + line + "\n");
      before.assign(kIndent, ' ');
    }
  }

  std::string rate(double per_second) const {
    return short_change_text(per_second * unit_.seconds);
  }

  void print_head() {
    const int64_t first = history_.points.front().time_ns;
    const int64_t last = history_.points.back().time_ns;
    out_.write(ink_.bold(fmt::format("{}: {} on {}", printable(name_), printable(history_.comm),
                                     printable(history_.host))) +
               "\n");
    field("snapshots",
          history_.points.size() == 1
              ? "1, of " + time_text(first, 1)
              : fmt::format("{} in {}, from {} to {}", count_text(history_.points.size()),
                            long_span_text(static_cast<double>(last - first) / 1e9),
                            time_text(first, 1), time_text(last, 1)));
    field("program", printable(history_.last_run().exe) +
                         (history_.upgrades == 0
                              ? ""
                              : "; " + count_text(history_.upgrades, "upgrade", "upgrades")));
    if (history_.beside > 0) {
      field("processes",
            fmt::format("{} side by side; the figures are of process {}, which grows fastest",
                        count_text(history_.runs.size()), history_.last_run().pid));
    } else if (history_.restarts > 0) {
      field("processes",
            fmt::format("{}, one after the other: {}, or different processes of one program; "
                        "growth is measured within each",
                        count_text(history_.runs.size()),
                        history_.restarts == 1 ? "a restart" : "restarts"));
    }
    field("resident", trend_text(history_));
    if (history_.forecast) print_forecast(*history_.forecast, last);
    if (!history_.far_limit.empty()) {
      field("forecast", fmt::format("none: {} later than {:.0f} times the time observed",
                                    limit_event(history_.far_limit), kForecastReach));
    }
  }

  void print_forecast(const HistoryForecast& forecast, int64_t last_ns) {
    std::string text =
        fmt::format("{} in {}, at {}", limit_event(forecast.limit),
                    long_span_text(forecast.seconds), date_text(last_ns, forecast.seconds));
    const std::string soonest = date_text(last_ns, forecast.soonest);
    text += forecast.latest
                ? fmt::format(" (95 %: {} to {})", soonest, date_text(last_ns, *forecast.latest))
                : fmt::format(" (95 %: {} at the earliest)", soonest);
    field("forecast", text + ", if it goes on like this and nothing else takes memory");
  }

  void print_series() {
    std::vector<size_t> runs;
    for (const HistoryPoint& point : history_.points) runs.push_back(point.run);
    TextTable table;
    table.add_column("what", TextTable::Align::kLeft);
    table.add_column("trend", TextTable::Align::kLeft);
    table.add_column("first", TextTable::Align::kRight);
    table.add_column("last", TextTable::Align::kRight);
    table.add_column(unit_.column, TextTable::Align::kRight);
    table.add_column("95 %", TextTable::Align::kRight);
    const size_t most = options_.limit == 0 ? history_.series.size() : options_.limit;
    size_t shown = 0;
    for (const HistorySeries& series : history_.series) {
      if (shown == most) break;
      // What stays the same is for who asks for all.
      if (options_.limit != 0 && series.kind != SeriesKind::kResident && !changes(series)) continue;
      ++shown;
      const auto& slope = series.slope;
      const bool is_sure = slope && slope->interval;
      table.add_row(
          {label(series), sparkline(series.values, runs, kTrendWidth),
           short_value_text(series.values.front()), short_value_text(series.values.back()),
           slope ? rate(slope->per_second) : "-",
           is_sure ? rate(slope->interval->low) + " to " + rate(slope->interval->high) : "-"});
    }
    out_.write("\n" + ink_.bold("Growth, the fastest first (K, M, G: KiB, MiB, GiB)") + "\n");
    table.print(out_, ink_, options_.style.width);
    if (history_.upgrades > 0) out_.write("  The rates are those since the last upgrade.\n");
    if (shown < history_.series.size()) {
      out_.write(fmt::format("  {} more, also those that stay the same: --limit 0\n",
                             count_text(history_.series.size() - shown)));
    }
  }

  void print_unread() {
    const size_t most = options_.limit == 0 ? history_.unread.size() : kListedUnread;
    const size_t listed = std::min(most, history_.unread.size());
    for (size_t i = 0; i < listed; ++i) field("mind", printable(history_.unread[i]));
    if (listed < history_.unread.size()) {
      field("mind", fmt::format("{} more that cannot be read: --limit 0",
                                count_text(history_.unread.size() - listed)));
    }
  }

  void print_runs() {
    TextTable table;
    table.add_column("pid", TextTable::Align::kRight);
    table.add_column("began by", TextTable::Align::kLeft);
    table.add_column("build", TextTable::Align::kLeft);
    table.add_column("from", TextTable::Align::kLeft);
    table.add_column("taken", TextTable::Align::kRight);
    table.add_column("first", TextTable::Align::kRight);
    table.add_column("last", TextTable::Align::kRight);
    table.add_column(unit_.column, TextTable::Align::kRight);
    const size_t left_out =
        history_.runs.size() > kListedRuns ? history_.runs.size() - kListedRuns : 0;
    for (size_t i = left_out; i < history_.runs.size(); ++i) {
      const HistoryRun& run = history_.runs[i];
      table.add_row({std::to_string(run.pid), to_string(run.begin),
                     run.build_id.empty() ? "-" : run.build_id.substr(0, kBuildDigits),
                     time_text(run.first_ns, 1).substr(0, 16) + "Z", count_text(run.snapshots),
                     short_size_text(run.first_rss), short_size_text(run.last_rss),
                     run.slope ? rate(run.slope->per_second) : "-"});
    }
    out_.write("\n" + ink_.bold("Processes, by their first snapshot") + "\n");
    table.print(out_, ink_, options_.style.width);
    if (left_out > 0) out_.write(fmt::format("  and {} before\n", count_text(left_out)));
  }

  Writer& out_;
  const GrowthHistory& history_;
  const std::string& name_;
  const HistoryTextOptions& options_;
  const Ink ink_;
  const RateUnit unit_;
};

}  // namespace

std::string trend_text(const GrowthHistory& history) {
  const Observation& observed = history.observed;
  const std::string now = value_text(history.resident().values.back()) + ", ";
  const std::string change =
      fmt::format("{} in {} ({}): ", change_text(observed.change), long_span_text(observed.seconds),
                  percent_text(share_of_before(observed)));
  const auto& slope = history.resident().slope;
  if (!slope) return now + "too few snapshots of one process to tell a trend";
  if (history.trend == Trend::kTooShort) return now + change + "too short a time to tell a trend";
  if (history.trend == Trend::kTooLittle) return now + change + "too little to tell a trend";
  const RateUnit unit = rate_unit(observed.seconds);
  const auto rate = [unit](double per_second) { return change_text(per_second * unit.seconds); };
  if (!slope->interval) {
    return now + fmt::format("{} {}, from too few snapshots to be sure", rate(slope->per_second),
                             unit.per);
  }
  const std::string range = fmt::format("{} (95 %: {} to {})", unit.per, rate(slope->interval->low),
                                        rate(slope->interval->high));
  const std::string amount = rate(slope->per_second);
  if (history.trend == Trend::kUnsure) {
    return now + fmt::format("no clear trend: {} {}", amount, range);
  }
  return now + fmt::format("{} by {} {}", slope->per_second < 0 ? "shrinks" : "grows",
                           amount.substr(1), range);
}

void print_history(Writer& out, const NamedHistory& named, const HistoryTextOptions& options) {
  HistoryPage(out, named, options).print();
}

}  // namespace heapsnap
