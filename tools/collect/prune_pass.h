// `heapsnap prune`: removes what the configuration's `keep` does not retain from the store.
//
//   list folders -> read what each snapshot says of itself -> plan (store/retention.h) -> remove
//
// A regular file is removed only if it records that `heapsnap collect` wrote it to this place in
// the store. All else is left alone and reported, and so are snapshots from the future.
//
// No folder stays open: a store may have those of more targets than a process may open files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "store/retention.h"
#include "store/store_folder.h"
#include "tools/collect/collect_config.h"

namespace heapsnap {

struct LeftAlone {
  std::string name;
  std::string why;
  bool is_closed = false;  // this user may not read it: whether it may go is not known
};

struct PrunedFile {
  std::string path;
  std::string why;      // why it goes
  std::string failure;  // why it could not be removed; empty: it is gone
  uint64_t bytes = 0;
};

// What became of the folder of one target.
struct PrunedFolder {
  std::string host;
  std::string target;      // empty: the host's own, with what is no folder of a target
  std::string failure;     // why the folder cannot be opened; empty: it can
  uint64_t snapshots = 0;  // of collect, before
  uint64_t bytes = 0;
  std::vector<PrunedFile> removed;
  std::vector<LeftAlone> left_alone;
};

struct PruneOptions {
  bool dry_run = false;    // remove nothing
  bool all_hosts = false;  // else only of this machine
};

// Throws Error{kOutput} when the store cannot be opened.
std::vector<PrunedFolder> prune_store(const CollectConfig& config, const PruneOptions& options,
                                      int64_t now_s);

}  // namespace heapsnap
