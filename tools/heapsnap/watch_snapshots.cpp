#include "tools/heapsnap/watch_snapshots.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "platform/linux/freeze/freeze_options.h"
#include "platform/linux/trace/target_lock.h"
#include "tools/capture/capture.h"
#include "tools/heapsnap/output_name.h"

namespace heapsnap {

namespace {

// For another heapsnap that is just done with the process.
constexpr std::chrono::milliseconds kPatienceForOther{500};
// Between attempts to write.
constexpr std::chrono::seconds kShortestWait{1};
constexpr std::chrono::seconds kLongestWait{60};

bool exists(const std::string& path) {
  return ::faccessat(AT_FDCWD, path.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

// Nothing when another one has it.
std::optional<TargetLock> lock_target(int pid, std::vector<std::string>& notes) {
  try {
    return std::optional<TargetLock>(std::in_place, ProcFs(), pid, kPatienceForOther);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    notes.push_back("no snapshot at this look: " + error.why());
    return std::nullopt;
  }
}

}  // namespace

WatchSnapshots::WatchSnapshots(std::string folder, uint64_t keep)
    : folder_(std::move(folder)), kept_(folder_.empty() ? "." : folder_, keep) {
  if (!folder_.empty() && !folder_.ends_with('/')) folder_ += '/';
}

std::optional<WatchedSnapshot> WatchSnapshots::take(WatchedProcess& process,
                                                    std::vector<std::string>& notes) {
  if (std::chrono::steady_clock::now() < not_before_) return std::nullopt;
  const std::optional<TargetLock> lock = lock_target(process.pid(), notes);
  if (!lock) return std::nullopt;
  if (process.has_ended()) throw process.ended();  // the lock may be another process's by now
  const std::string prefix =
      expand_output_name("%n.%p.%t", process.target().process(), realtime_ns());
  CaptureOptions options;
  std::string name;
  uint64_t number = number_;
  do {
    name = prefix + "." + std::to_string(++number) + ".hsnap";
    options.output.path = folder_ + name;
  } while (exists(options.output.path));
  try {
    const CaptureResult result = capture_process(process.pid(), FreezeOptions{}, options);
    number_ = number;
    wait_ = std::chrono::seconds(0);
    for (std::string& note : kept_.add(name)) notes.push_back(std::move(note));
    return WatchedSnapshot{
        {}, options.output.path, result.file_size, result.metadata.freeze.pause_ns};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kOutput) throw;
    wait_ = std::clamp(2 * wait_, kShortestWait, kLongestWait);
    not_before_ = std::chrono::steady_clock::now() + wait_;
    notes.push_back("no snapshot: " + error.subject() + ": " + error.why() + "; tried again in " +
                    std::to_string(wait_.count()) + " s; do: " + error.remedy());
    return std::nullopt;
  }
}

}  // namespace heapsnap
