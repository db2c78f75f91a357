// One `heapsnap collect` per host: a lock of flock(2) on a file, which ends with its holder.
#pragma once

#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "tools/collect/collect_config.h"

namespace heapsnap {

// In /run/heapsnap, or in the host's folder of the store.
inline constexpr const char* kCollectLockName = "collect.lock";

class CollectLock {
 public:
  // Takes the lock if nobody has it. The file is what the configuration says, else
  // /run/heapsnap/collect.lock, which root may make, else collect.lock in `folder` (open, at
  // `folder_path`): the folder of this host in the store. Throws Error{kOutput} when no file can be
  // opened.
  CollectLock(const CollectConfig& config, int folder, const std::string& folder_path);

  bool is_held() const { return is_held_; }
  // "process 4711" where the file says who holds it, else "another process".
  const std::string& holder() const { return holder_; }

  // In a child process that works for the holder: the lock does not wait for its end.
  void drop_in_child() { file_.reset(); }

 private:
  UniqueFd file_;
  bool is_held_ = false;
  std::string holder_;
};

}  // namespace heapsnap
