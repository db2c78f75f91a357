#include "tools/collect/prune_pass.h"

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "tools/collect/own_host.h"

namespace heapsnap {

namespace {

struct OpenFolder {
  UniqueFd folder;
  std::vector<StoredSnapshot> snapshots;  // of collect
};

void look_at(const std::string& name, const std::string& store, PrunedFolder& found,
             OpenFolder& open) {
  const auto parsed = parse_snapshot_name(name);
  if (!parsed) {
    found.left_alone.push_back({name, "it has no name of a snapshot"});
    return;
  }
  const std::string place = found.host + "/" + found.target + "/" + name;
  try {
    StoredSnapshot snapshot = read_stored_snapshot(open.folder.get(), *parsed, store + "/" + place);
    const std::string why = why_foreign(snapshot, place);
    if (!why.empty()) {
      found.left_alone.push_back({name, why});
      return;
    }
    ++found.snapshots;
    found.bytes += snapshot.bytes;
    open.snapshots.push_back(std::move(snapshot));
  } catch (const Error& error) {
    found.left_alone.push_back({name, error.why()});
  }
}

}  // namespace

std::vector<PrunedFolder> prune_store(const CollectConfig& config, const PruneOptions& options,
                                      int64_t now_s) {
  const UniqueFd store = open_store(config.store);
  std::vector<PrunedFolder> result;
  std::vector<OpenFolder> opened;
  for (const std::string& host : names_in(store.get())) {
    if (!options.all_hosts && host != own_host_folder()) continue;
    const UniqueFd host_folder = open_folder(store.get(), host);
    if (!host_folder) continue;
    for (const std::string& target : names_in(host_folder.get())) {
      UniqueFd folder =
          is_target_name(target) ? open_folder(host_folder.get(), target) : UniqueFd();
      if (!folder) continue;
      result.push_back({host, target, 0, 0, {}, {}});
      opened.push_back({std::move(folder), {}});
      for (const std::string& name : names_in(opened.back().folder.get())) {
        look_at(name, config.store, result.back(), opened.back());
      }
    }
  }

  std::vector<RetainedFile> files;
  for (size_t i = 0; i < opened.size(); ++i) {
    for (const StoredSnapshot& each : opened[i].snapshots) {
      files.push_back({i, each.name.time_s, each.name.pid, each.bytes});
    }
  }
  const std::vector<Fate> fates = plan_retention(config.keep, files, now_s);
  size_t index = 0;
  for (size_t i = 0; i < opened.size(); ++i) {
    for (const StoredSnapshot& each : opened[i].snapshots) {
      const Fate fate = fates[index++];
      if (fate == Fate::kKept) continue;
      if (fate == Fate::kInFuture) {
        result[i].left_alone.push_back({to_text(each.name), to_string(fate)});
        continue;
      }
      PrunedFile file{
          config.store + "/" + result[i].host + "/" + result[i].target + "/" + to_text(each.name),
          to_string(fate),
          {},
          each.bytes};
      if (!options.dry_run) file.failure = remove_snapshot(opened[i].folder.get(), each);
      result[i].removed.push_back(std::move(file));
    }
  }
  return result;
}

}  // namespace heapsnap
