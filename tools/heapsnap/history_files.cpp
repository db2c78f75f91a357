#include "tools/heapsnap/history_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/clock.h"
#include "base/error.h"
#include "report/terminal_text.h"
#include "store/store_folder.h"
#include "tools/collect/collect_config.h"
#include "tools/collect/own_host.h"

namespace heapsnap {

namespace {

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

}  // namespace

std::vector<HistoryFiles> find_history_files(const std::vector<std::string>& what,
                                             const std::string& config) {
  const auto is_path = [&](const std::string& word) {
    std::error_code error;
    if (word.find('/') != std::string::npos || word.ends_with(".hsnap")) return true;
    return std::filesystem::exists(word, error) && !is_collected(config, word);
  };
  const auto count = std::count_if(what.begin(), what.end(), is_path);
  if (count == 0) return of_store(read_collect_config(config), what);
  if (static_cast<size_t>(count) != what.size()) {
    throw Error(ErrorKind::kUsage, "history", "names of targets and files were given",
                "give the ones or the others");
  }
  HistoryFiles files;
  for (const std::string& word : what) {
    std::error_code error;
    if (std::filesystem::is_directory(word, error)) {
      add_snapshots_in(word, files);
    } else {
      files.paths.push_back(word);
    }
  }
  if (files.paths.empty() && files.passed_over.empty()) {
    throw Error(ErrorKind::kBadInput, "history",
                fmt::format("there are no snapshots in {}",
                            printable(fmt::to_string(fmt::join(what, ", ")))),
                "name the folder that they are in (those in folders below it do not count), or "
                "take some: heapsnap attach PID");
  }
  return split_by_program(files);
}

}  // namespace heapsnap
