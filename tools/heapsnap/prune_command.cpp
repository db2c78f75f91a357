#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "report/json_writer.h"
#include "report/number_text.h"
#include "report/terminal_text.h"
#include "report/writer.h"
#include "tools/collect/own_host.h"
#include "tools/collect/prune_pass.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/config_option.h"
#include "tools/heapsnap/option_parser.h"

namespace heapsnap {

namespace {

constexpr const char* kPruneDescription =
    "Removes the snapshots that the configuration's `keep` does not retain from the store of\n"
    "heapsnap collect. Prints one line per target.\n"
    "\n"
    "  last, hourly, daily, weekly   the newest N; the newest one of each process in each of the\n"
    "                                newest N hours, days, weeks (UTC); one match is enough\n"
    "  max_age, max_bytes            of those retained, older ones are removed, and then the\n"
    "                                oldest until the rest fits; the newest one of each target\n"
    "                                is never removed\n"
    "\n"
    "A file is removed only if it records that heapsnap collect wrote it to this place in the\n"
    "store. Other files, links, folders, copies and damaged snapshots are left alone, and so are\n"
    "snapshots from the future, which a clock that was ahead has named.";

// Names that a line may list.
constexpr size_t kListedNames = 3;

size_t failures(const PrunedFolder& folder) {
  if (!folder.failure.empty()) return 1;
  return static_cast<size_t>(
      std::count_if(folder.removed.begin(), folder.removed.end(),
                    [](const PrunedFile& file) { return !file.failure.empty(); }));
}

bool has_closed_files(const PrunedFolder& folder) {
  return std::any_of(folder.left_alone.begin(), folder.left_alone.end(),
                     [](const LeftAlone& file) { return file.is_closed; });
}

uint64_t freed_bytes(const PrunedFolder& folder) {
  uint64_t bytes = 0;
  for (const PrunedFile& file : folder.removed) bytes += file.failure.empty() ? file.bytes : 0;
  return bytes;
}

void print_text(Writer& out, const PrunedFolder& folder, const PruneOptions& options) {
  const bool names_host = options.all_hosts || folder.target.empty();
  const std::string name =
      printable(names_host ? folder.host + "/" + folder.target : folder.target);
  if (!folder.failure.empty()) {
    out.write(fmt::format("{}: its folder cannot be opened: {}\n", name, folder.failure));
    return;
  }
  for (const PrunedFile& file : folder.removed) {
    if (!file.failure.empty()) {
      out.write(
          fmt::format("{}: cannot remove {}: {}\n", name, printable(file.path), file.failure));
    } else if (options.dry_run) {
      out.write(fmt::format("{}: would remove {}: {}\n", name, printable(file.path), file.why));
    }
  }
  std::string line = name + ":";
  if (!folder.target.empty()) {
    line +=
        fmt::format(" {} of {}, {} {}", count_text(folder.snapshots, "snapshot", "snapshots"),
                    size_text(folder.bytes), count_text(folder.removed.size() - failures(folder)),
                    options.dry_run ? "to be removed" : "removed");
    if (!folder.removed.empty()) line += fmt::format(", {} freed", size_text(freed_bytes(folder)));
  }
  if (!folder.left_alone.empty()) {
    line += fmt::format("{} {} left alone:", folder.target.empty() ? "" : ";",
                        count_text(folder.left_alone.size()));
    for (size_t i = 0; i < std::min(kListedNames, folder.left_alone.size()); ++i) {
      line += fmt::format("{} {} ({})", i == 0 ? "" : ",", printable(folder.left_alone[i].name),
                          printable(folder.left_alone[i].why));
    }
    if (folder.left_alone.size() > kListedNames) line += ", ...";
  }
  out.write(line + "\n");
}

void print_json(Writer& out, const PrunedFolder& folder, const PruneOptions& options) {
  JsonWriter json(out);
  json.begin_object();
  json.member("kind", "prune");
  json.member("version", 1);
  json.member("host", folder.host);
  json.member("target", folder.target);
  json.member("failure", folder.failure);
  json.member("dry_run", options.dry_run);
  json.member("snapshots", folder.snapshots);
  json.member("bytes", folder.bytes);
  json.member("freed_bytes", freed_bytes(folder));
  json.key("removed");
  json.begin_array();
  for (const PrunedFile& file : folder.removed) {
    json.begin_object();
    json.member("snapshot", file.path);
    json.member("why", file.why);
    json.member("failure", file.failure);
    json.end_object();
  }
  json.end_array();
  json.key("left_alone");
  json.begin_array();
  for (const LeftAlone& file : folder.left_alone) {
    json.begin_object();
    json.member("name", file.name);
    json.member("why", file.why);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  out.write("\n");
}

}  // namespace

int run_prune(const std::vector<std::string>& arguments) {
  std::string path = kDefaultConfigPath;
  PruneOptions options;
  bool json = false;
  OptionParser parser("prune [options]", kPruneDescription);
  add_config_option(parser, path);
  parser.flag("dry-run,n", options.dry_run, "remove nothing; list what would be removed");
  parser.flag("all-hosts", options.all_hosts,
              "include the folders of other machines in the store (default: only this one's)");
  parser.flag("json,j", json, "print one line of JSON per target");
  parser.example("heapsnap prune --dry-run", "what would be removed, and why");
  parser.example("heapsnap collect; heapsnap prune", "both, whatever became of the first");
  if (!parser.parse(arguments)) return kExitDone;
  const CollectConfig config = read_collect_config(path);
  Writer out(STDOUT_FILENO, "standard output");
  if (config.keep.is_empty()) {
    if (!json) {
      out.write(printable(config.path) +
                ": it has no keep, so every snapshot is kept\n"
                "to remove some: keep = { last = 24, daily = 14, max_bytes = \"5GiB\" }\n");
    }
    out.flush();
    return kExitDone;
  }
  bool has_failed = false;
  const std::vector<PrunedFolder> folders = prune_store(config, options, realtime_s());
  if (folders.empty() && !json) {
    out.write(printable(config.store) + ": there are no snapshots of " +
              (options.all_hosts ? "any host" : "this host (" + own_host_folder() + ")") + "\n");
  }
  for (const PrunedFolder& folder : folders) {
    has_failed |= failures(folder) > 0 || has_closed_files(folder);
    if (json) {
      print_json(out, folder, options);
    } else {
      print_text(out, folder, options);
    }
  }
  out.flush();
  return has_failed ? static_cast<int>(ErrorKind::kOutput) : kExitDone;
}

}  // namespace heapsnap
