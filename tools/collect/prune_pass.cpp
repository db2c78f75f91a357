#include "tools/collect/prune_pass.h"

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "tools/collect/collect_lock.h"
#include "tools/collect/own_host.h"

namespace heapsnap {

namespace {

// A folder whose snapshots were looked at.
struct SeenFolder {
  PrunedFolder result;
  std::vector<StoredSnapshot> snapshots;  // of collect
};

void look_at(const std::string& name, const std::string& store, int folder, SeenFolder& seen) {
  PrunedFolder& found = seen.result;
  const auto parsed = parse_snapshot_name(name);
  if (!parsed) {
    found.left_alone.push_back({name, "it has no name of a snapshot"});
    return;
  }
  const std::string place = found.host + "/" + found.target + "/" + name;
  try {
    StoredSnapshot snapshot = read_stored_snapshot(folder, *parsed, store + "/" + place);
    const std::string why = why_foreign(snapshot, place);
    if (!why.empty()) {
      found.left_alone.push_back({name, why});
      return;
    }
    ++found.snapshots;
    found.bytes += snapshot.bytes;
    seen.snapshots.push_back(std::move(snapshot));
  } catch (const Error& error) {
    found.left_alone.push_back({name, error.why(), error.kind() == ErrorKind::kNotPermitted});
  }
}

// The folders of all targets of a host, and what else is in the host's own.
void look_at_host(const CollectConfig& config, const std::string& host, int store,
                  std::vector<SeenFolder>& seen) {
  std::string target;  // none at first: the host's folder
  const auto open = [&](int parent, const std::string& name) {
    try {
      return open_folder_if_any(parent, name, name);
    } catch (const Error& error) {
      seen.push_back({{host, target, error.why(), 0, 0, {}, {}}, {}});
      return UniqueFd();
    }
  };
  const size_t seen_before_host = seen.size();
  const UniqueFd host_folder = open(store, host);
  SeenFolder own{{host, {}, {}, 0, 0, {}, {}}, {}};
  if (!host_folder) {
    own.result.left_alone.push_back({host, "it is no folder of a host"});
    if (seen.size() == seen_before_host) seen.push_back(std::move(own));
    return;
  }
  for (const std::string& each : names_in(host_folder.get())) {
    target = each;
    const size_t seen_before = seen.size();
    const UniqueFd folder = is_target_name(target) ? open(host_folder.get(), target) : UniqueFd();
    if (!folder) {
      const bool is_told = seen.size() > seen_before || each == kCollectLockName;
      if (!is_told) own.result.left_alone.push_back({each, "it is no folder of a target"});
      continue;
    }
    seen.push_back({{host, target, {}, 0, 0, {}, {}}, {}});
    try {
      for (const std::string& name : names_in(folder.get())) {
        look_at(name, config.store, folder.get(), seen.back());
      }
    } catch (const Error& error) {
      seen.back().result.failure = error.why();
    }
  }
  if (!own.result.left_alone.empty()) seen.push_back(std::move(own));
}

// Why that failed; empty when it is gone. The folder may be another one by now: then the snapshot
// is not the one that was read, and stays.
std::string remove_below(int store, const PrunedFolder& place, const StoredSnapshot& snapshot) {
  const UniqueFd host_folder = open_folder(store, place.host);
  const UniqueFd folder = host_folder ? open_folder(host_folder.get(), place.target) : UniqueFd();
  if (!folder) return errno == ENOENT ? std::string() : errno_text(errno);
  return remove_snapshot(folder.get(), snapshot);
}

}  // namespace

std::vector<PrunedFolder> prune_store(const CollectConfig& config, const PruneOptions& options,
                                      int64_t now_s) {
  const UniqueFd store = open_store(config.store);
  std::vector<SeenFolder> seen;
  for (const std::string& host : names_in(store.get())) {
    if (options.all_hosts || host == own_host_folder()) {
      look_at_host(config, host, store.get(), seen);
    }
  }

  std::vector<RetainedFile> files;
  for (size_t i = 0; i < seen.size(); ++i) {
    for (const StoredSnapshot& each : seen[i].snapshots) {
      files.push_back({i, each.name.time_s, each.name.pid, each.bytes});
    }
  }
  const std::vector<Fate> fates = plan_retention(config.keep, files, now_s);
  std::vector<PrunedFolder> result;
  size_t index = 0;
  for (SeenFolder& folder : seen) {
    PrunedFolder& pruned = folder.result;
    for (const StoredSnapshot& each : folder.snapshots) {
      const Fate fate = fates[index++];
      if (fate == Fate::kKept) continue;
      if (fate == Fate::kInFuture) {
        pruned.left_alone.push_back({to_text(each.name), to_string(fate)});
        continue;
      }
      PrunedFile file{
          config.store + "/" + pruned.host + "/" + pruned.target + "/" + to_text(each.name),
          to_string(fate),
          {},
          each.bytes};
      if (!options.dry_run) file.failure = remove_below(store.get(), pruned, each);
      pruned.removed.push_back(std::move(file));
    }
    result.push_back(std::move(pruned));
  }
  return result;
}

}  // namespace heapsnap
