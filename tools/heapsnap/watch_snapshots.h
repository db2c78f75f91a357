// The snapshots that `heapsnap watch` takes: NAME.PID.TIME.NUMBER.hsnap in one folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/watch_report.h"
#include "store/kept_snapshots.h"
#include "tools/heapsnap/watched_process.h"

namespace heapsnap {

class WatchSnapshots {
 public:
  // `folder`: empty for the current one. Keeps the newest `keep`; 0: all. Throws Error{kOutput}
  // when the folder cannot be written to.
  WatchSnapshots(std::string folder, uint64_t keep);

  // Takes one as attach does. Nothing, and a note, while another heapsnap works in the process, or
  // where the file cannot be written: then calls are passed over for a second, and after each
  // further failure for twice as long, up to a minute, since each attempt pauses the process.
  // Throws as capture_process() does for all else.
  std::optional<WatchedSnapshot> take(WatchedProcess& process, std::vector<std::string>& notes);

 private:
  std::string folder_;  // with a slash at its end, or empty
  KeptSnapshots kept_;
  uint64_t number_ = 0;
  std::chrono::seconds wait_{0};  // after the last attempt, if that failed
  std::chrono::steady_clock::time_point not_before_;
};

}  // namespace heapsnap
