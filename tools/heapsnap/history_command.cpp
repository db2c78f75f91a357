#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "analysis/growth_history.h"
#include "base/byte_size.h"
#include "base/clock.h"
#include "base/error.h"
#include "report/history_picture.h"
#include "report/history_report.h"
#include "report/terminal_text.h"
#include "store/store_folder.h"
#include "tools/collect/collect_config.h"
#include "tools/collect/own_host.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/config_option.h"
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
    "targets of this host in the store.\n"
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

// Takes a file of a folder, or says why it is passed over: no link is followed there.
void add_file(const std::string& path, HistoryFiles& files) {
  std::error_code error;
  const auto kind = std::filesystem::symlink_status(path, error).type();
  if (kind == std::filesystem::file_type::symlink) {
    files.passed_over.push_back(path + ": it is a symbolic link");
  } else if (kind == std::filesystem::file_type::regular) {
    files.paths.push_back(path);
  } else if (kind != std::filesystem::file_type::not_found) {  // prune may have taken it
    files.passed_over.push_back(path + ": it is no regular file");
  }
}

void add_snapshots_in(const std::string& folder, HistoryFiles& files) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".hsnap") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) add_file(path, files);
}

std::vector<HistoryFiles> of_store(const CollectConfig& config,
                                   const std::vector<std::string>& names) {
  const std::string host = config.store + "/" + own_host_folder();
  const UniqueFd store = open_store(config.store);
  const UniqueFd host_folder = open_folder_if_any(store.get(), own_host_folder(), host);
  std::vector<std::string> wanted = names;
  if (wanted.empty() && host_folder) {
    for (const std::string& name : names_in(host_folder.get())) {
      if (is_target_name(name)) wanted.push_back(name);  // what is no folder has no snapshots
    }
  }
  std::vector<HistoryFiles> result;
  for (const std::string& name : wanted) {
    const bool may_be_there = host_folder && is_target_name(name);
    const UniqueFd folder =
        may_be_there ? open_folder_if_any(host_folder.get(), name, host + "/" + name) : UniqueFd();
    HistoryFiles files{name, {}, {}};
    if (folder) {
      for (const SnapshotName& each : snapshot_names_in(folder.get())) {
        const std::string path = host + "/" + name + "/" + to_text(each);
        if (is_in_future(each.time_s, realtime_s())) {
          files.passed_over.push_back(path + ": its time is in the future: a clock was ahead");
        } else {
          add_file(path, files);
        }
      }
    }
    const bool is_empty = files.paths.empty() && files.passed_over.empty();
    if (is_empty && names.empty()) continue;  // none was collected yet
    if (is_empty) {
      const bool is_target = std::any_of(config.targets.begin(), config.targets.end(),
                                         [&](const TargetRule& rule) { return rule.name == name; });
      throw Error(ErrorKind::kUsage, "history of " + printable(name),
                  "there are no snapshots of it in " + host,
                  is_target ? "see what it matches now, and what is due: heapsnap collect --check"
                            : "name a target of the configuration, a folder, or snapshots: "
                              "heapsnap history a.hsnap b.hsnap");
    }
    result.push_back(std::move(files));
  }
  if (result.empty()) {
    throw Error(ErrorKind::kUsage, "history", "there are no snapshots in " + host,
                "collect some: heapsnap collect");
  }
  return result;
}

// Whether the store has a folder of that target: it is meant then, even if a file has its name.
bool is_collected(const std::string& config, const std::string& name) {
  try {
    const UniqueFd store = open_store(read_collect_config(config).store);
    const UniqueFd host_folder = open_folder(store.get(), own_host_folder());
    return host_folder && is_target_name(name) && open_folder(host_folder.get(), name);
  } catch (const Error&) {
    return false;  // nothing was collected here
  }
}

// Names of targets, or else folders and files, which make one history together.
std::vector<HistoryFiles> find_files(const HistoryArguments& arguments) {
  const auto is_path = [&](const std::string& word) {
    std::error_code error;
    if (word.find('/') != std::string::npos || word.ends_with(".hsnap")) return true;
    return std::filesystem::exists(word, error) && !is_collected(arguments.config, word);
  };
  const auto count = std::count_if(arguments.what.begin(), arguments.what.end(), is_path);
  if (count == 0) return of_store(read_collect_config(arguments.config), arguments.what);
  if (static_cast<size_t>(count) != arguments.what.size()) {
    throw Error(ErrorKind::kUsage, "history", "names of targets and files were given",
                "give the ones or the others");
  }
  HistoryFiles files;
  for (const std::string& word : arguments.what) {
    std::error_code error;
    if (std::filesystem::is_directory(word, error)) {
      add_snapshots_in(word, files);
    } else {
      files.paths.push_back(word);
    }
  }
  return {std::move(files)};
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
  for (const HistoryFiles& files : find_files(arguments)) {
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
    throw Error(ErrorKind::kUsage, "--picture", "there is more than one history",
                "name one target: heapsnap history NAME --picture FILE.png");
  }
  if (!arguments.picture.empty()) {
    ResultFile picture(arguments.picture, arguments.force);
    write_history_picture(histories.front(), kPictureWidth, kPictureHeight, picture.writer());
    picture.commit();
  }
  if (!arguments.textfile.empty()) write_textfile(arguments, histories, tolerance);
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
