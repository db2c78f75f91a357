#include <doctest/doctest.h>

#include "report/history_report.h"

using namespace heapsnap;

namespace {

constexpr double kMebibyte = 1 << 20;
constexpr int64_t kSecond = 1'000'000'000;

// Of a process with 200 MiB now.
GrowthHistory history_of(double seconds, double change, double per_second, Trend trend) {
  GrowthHistory history;
  history.comm = "server";
  history.host = "vm";
  HistoryRun run;
  run.exe = "/opt/server";
  history.runs.push_back(run);
  history.observed = {seconds, change, 200 * kMebibyte};
  history.trend = trend;
  HistorySeries resident{SeriesKind::kResident, "resident memory", {200 * kMebibyte - change}, {}};
  resident.values.emplace_back(200 * kMebibyte);
  resident.slope.emplace();
  resident.slope->per_second = per_second;
  resident.slope->interval = Slope::Interval{per_second * 0.9, per_second * 1.1};
  history.series.push_back(resident);
  history.series.push_back({SeriesKind::kAccount, "bins", {kMebibyte, 2 * kMebibyte}, {}});
  history.points.push_back({0, 0, "a.hsnap"});
  history.points.push_back({static_cast<int64_t>(seconds) * kSecond, 0, "b.hsnap"});
  return history;
}

std::string history_page(const GrowthHistory& history) {
  std::string text;
  Writer out(text);
  print_history(out, {"web", history}, {{false, 100}, 20});
  out.flush();
  return text;
}

}  // namespace

TEST_CASE("a change that was observed for seconds is no rate") {
  CHECK(trend_text(history_of(36, 0.6 * kMebibyte, 1, Trend::kTooShort)) ==
        "200.0 MiB, +614.4 KiB in 36 seconds (0.3 %): too short a time to tell a trend");
  CHECK(trend_text(history_of(2 * 86400, -0.6 * kMebibyte, -1, Trend::kTooLittle)) ==
        "200.0 MiB, -614.4 KiB in 2 days (0.3 %): too little to tell a trend");
}

TEST_CASE("a rate has the unit that fits the time observed") {
  CHECK(trend_text(history_of(1800, kMebibyte, 1.001 * kMebibyte / 60, Trend::kGrows))
            .find("grows by 1.0 MiB a minute (95 %: +922.5 KiB to +1.1 MiB)") != std::string::npos);
  CHECK(trend_text(history_of(7200, kMebibyte, 1.001 * kMebibyte / 3600, Trend::kUnsure))
            .find("no clear trend: +1.0 MiB an hour") != std::string::npos);
  CHECK(trend_text(history_of(86400, -kMebibyte, -1.001 * kMebibyte / 86400, Trend::kShrinks))
            .find("shrinks by 1.0 MiB a day") != std::string::npos);
  CHECK(history_page(history_of(7200, kMebibyte, 1, Trend::kGrows)).find("/hour") !=
        std::string::npos);
}

TEST_CASE("rows have the names of the report's") {
  const std::string page = history_page(history_of(36, kMebibyte, 1, Trend::kTooShort));
  CHECK(page.find("  free in bins ") != std::string::npos);
}

TEST_CASE("a forecast says what happens, and when") {
  GrowthHistory history = history_of(7200, kMebibyte, 1, Trend::kGrows);
  history.forecast = HistoryForecast{"memory of this machine", 1e9, 3060, 3000, std::nullopt};
  const std::string page = history_page(history);
  CHECK(page.find("this machine runs out of memory in 51 minutes, at 1970-01-01T02:51Z") !=
        std::string::npos);
  CHECK(page.find("02:50Z at the earliest)") != std::string::npos);
  history.forecast.reset();
  history.far_limit = "memory limit of /app";
  CHECK(history_page(history).find("none: the memory limit of /app is reached later than 10 times "
                                   "the time") != std::string::npos);
}

TEST_CASE("processes that follow each other need not be restarts") {
  GrowthHistory history = history_of(36, kMebibyte, 1, Trend::kTooShort);
  history.runs.push_back(history.runs.front());
  history.restarts = 1;
  CHECK(history_page(history).find("2, one after the other: a restart, or different processes") !=
        std::string::npos);
}

TEST_CASE("metrics are UTF-8 whatever a process is called, with quotes and lines escaped") {
  const std::vector<NamedHistory> histories = {
      {"a\"b\n\xff\\", history_of(7200, kMebibyte, kMebibyte / 7200, Trend::kGrows)}};
  std::string text;
  Writer out(text);
  print_history_metrics(out, histories, 0);
  out.flush();
  CHECK(text.find("heapsnap_grows{target=\"a\\\"b\\n\xef\xbf\xbd\\\\\"} 1\n") != std::string::npos);
  CHECK(text.find('\xff') == std::string::npos);
}

TEST_CASE("of processes side by side, the program is that of the one that is followed") {
  GrowthHistory history = history_of(7200, kMebibyte, 1, Trend::kGrows);
  history.beside = 1;
  history.runs.emplace_back();
  history.runs.back().exe = "/bin/other";
  CHECK(history_page(history).find("program    /opt/server\n") != std::string::npos);
}
