#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/byte_size.h"
#include "base/error.h"
#include "report/history_picture.h"
#include "report/history_report.h"
#include "report/terminal_text.h"
#include "tools/collect/collect_config.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/config_option.h"
#include "tools/heapsnap/history_files.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/report_output.h"
#include "tools/heapsnap/result_file.h"
#include "tools/heapsnap/snapshot_series.h"
#include "tools/heapsnap/step_line.h"

namespace heapsnap {

namespace {

constexpr const char* kHistoryDescription =
    "Shows how a program's memory grew over many snapshots: of a target that heapsnap collect\n"
    "keeps (by its NAME), of all snapshots in a folder, or of the FILES given. Without any, of "
    "all\n"
    "targets of this host in the store. Snapshots of different programs, or from different\n"
    "hosts, have a history each.\n"
    "\n"
    "Each row is a figure of the snapshots: resident memory, what it is used for, block sizes,\n"
    "arenas, of a tracked process the functions that its live memory is charged to, and of\n"
    "snapshots with references what variables and threads keep alive, types and leaks. The rate\n"
    "is Theil and Sen's slope with its 95 % interval: outliers do not move it, and from five\n"
    "snapshots on it says what is sure. A restart or an upgrade of the program is told apart from\n"
    "shrinking: rates are measured within each run, since the last upgrade. Less than an hour of\n"
    "observation (--least-span), or a change of less than 1 %, is too little to tell a trend. The\n"
    "forecast says when the memory limit of the control group or of the machine is reached, if "
    "that\n"
    "is within 10 times the time observed.\n"
    "\n"
    "Exit code: 0, or 1 with --fail-on-growth if memory of any target is certainly growing. It is "
    "0\n"
    "where the time observed is too short to tell.";

constexpr const char* kDefaultTolerance = "1MiB";
constexpr const char* kDefaultLeastSpan = "1h";
constexpr unsigned kPictureWidth = 960;
constexpr unsigned kPictureHeight = 360;

struct HistoryArguments {
  std::vector<std::string> what;
  std::string config = kDefaultConfigPath;
  std::string picture;
  std::string textfile;
  std::string tolerance = kDefaultTolerance;
  std::string least_span = kDefaultLeastSpan;
  uint64_t limit = 20;
  bool fail_on_growth = false;
  bool force = false;
  ReportStyle style;
};

// By their hosts, or else by their programs, where several have one name: no metric may be there
// twice.
void tell_names_apart(std::vector<NamedHistory>& histories) {
  const auto are_distinct = [](const std::vector<NamedHistory*>& same, const auto& detail) {
    std::set<std::string> details;
    for (const NamedHistory* each : same) details.insert(detail(each->history));
    return details.size() == same.size();
  };
  const auto host = [](const GrowthHistory& history) { return " on " + history.host; };
  const auto program = [](const GrowthHistory& history) {
    return fmt::format(" ({})", history.last_run().exe);
  };
  std::map<std::string, std::vector<NamedHistory*>> by_name;
  for (NamedHistory& each : histories) by_name[each.name].push_back(&each);
  for (const auto& [name, same] : by_name) {
    if (same.size() == 1) continue;
    const bool by_host = are_distinct(same, host);
    const bool by_program = !by_host && are_distinct(same, program);
    for (NamedHistory* each : same) {
      if (!by_host) each->name += program(each->history);
      if (!by_program) each->name += host(each->history);
    }
  }
}

void write_textfile(const HistoryArguments& arguments, std::span<const NamedHistory> histories,
                    double tolerance) {
  if (arguments.textfile == "-") {
    Writer out(STDOUT_FILENO, "standard output");
    print_history_metrics(out, histories, tolerance);
    out.flush();
    return;
  }
  // node_exporter, which reads it, is another user; there are no secrets in it.
  OutputFile file(arguments.textfile, true);
  file.let_everyone_read();
  Writer out(file);
  print_history_metrics(out, histories, tolerance);
  out.flush();
  file.commit();
}

}  // namespace

int run_history(const std::vector<std::string>& words) {
  HistoryArguments arguments;
  OptionParser parser("history [options] [NAME|FILE...]", kHistoryDescription);
  add_config_option(parser, arguments.config);
  parser.number("limit", arguments.limit, "N", "rows of the table (default: 20; 0: all)");
  parser.flag("fail-on-growth", arguments.fail_on_growth,
              "exit with code 1 if resident memory is certainly growing");
  parser.text("tolerance", arguments.tolerance, "BYTES",
              "growth per day up to which memory does not count as growing (default: 1MiB)");
  parser.text("least-span", arguments.least_span, "TIME",
              "how long a process must have been observed to tell a trend (default: 1h)");
  parser.text("textfile", arguments.textfile, "FILE",
              "write metrics for node_exporter's textfile collector, and no table; an existing "
              "file is replaced");
  parser.text("picture", arguments.picture, "FILE",
              "draw resident memory as a picture (PNG), of one history; - for standard output");
  parser.flag("force,f", arguments.force, "replace the picture if it exists");
  add_report_options(parser, arguments.style, "print one line of JSON per history");
  parser.positionals("NAME", arguments.what);
  parser.example("heapsnap history web", "what became of target web");
  parser.example("heapsnap history web --fail-on-growth --tolerance 10MiB",
                 "for a check: exit code 1 where it leaks");
  parser.example("heapsnap history --textfile /var/lib/prometheus/node-exporter/heapsnap.prom",
                 "all targets as metrics");
  parser.example("heapsnap history before/*.hsnap --picture before.png", "as a picture");
  if (!parser.parse(words)) return kExitDone;
  const auto tolerance = static_cast<double>(parse_byte_size("--tolerance", arguments.tolerance));
  TrendBounds bounds;
  bounds.least_seconds =
      static_cast<double>(parse_duration_ms("--least-span", arguments.least_span)) / 1e3;
  const TextStyle style = text_style(arguments.style);

  StepLine working("reading the snapshots");
  // A target of which nothing can be read does not keep the others from being shown.
  std::vector<NamedHistory> histories;
  std::optional<Error> unreadable;
  for (const HistoryFiles& files : find_history_files(arguments.what, arguments.config)) {
    try {
      histories.push_back(read_history(files, bounds));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kBadInput) throw;
      if (!unreadable) unreadable = error;
    }
  }
  working.end();
  if (histories.empty()) throw Error(*unreadable);
  if (!arguments.picture.empty() && histories.size() != 1) {
    std::vector<std::string> names;
    for (const NamedHistory& each : histories) names.push_back(printable(each.name));
    throw Error(ErrorKind::kUsage, "--picture",
                fmt::format("there is more than one history: {}", fmt::join(names, ", ")),
                "name one target, or the snapshots of one program: heapsnap history NAME|FILE... "
                "--picture FILE.png");
  }
  if (!arguments.picture.empty()) {
    ResultFile picture(arguments.picture, arguments.force);
    write_history_picture(histories.front(), kPictureWidth, kPictureHeight, picture.writer());
    picture.commit();
  }
  if (!arguments.textfile.empty()) {
    tell_names_apart(histories);
    write_textfile(arguments, histories, tolerance);
  }
  if (arguments.textfile.empty() && arguments.picture != "-") {
    Writer out(STDOUT_FILENO, "standard output");
    bool is_first = true;
    for (const NamedHistory& each : histories) {
      if (arguments.style.json) {
        print_json_history(out, each, tolerance);
      } else {
        if (!is_first) out.write("\n");
        print_history(out, each, {style, arguments.limit});
      }
      is_first = false;
    }
    out.flush();
  }
  if (unreadable) throw Error(*unreadable);
  const bool grows = std::any_of(histories.begin(), histories.end(), [&](const NamedHistory& each) {
    return each.history.grows(tolerance);
  });
  return arguments.fail_on_growth && grows ? kExitFound : kExitDone;
}

}  // namespace heapsnap
