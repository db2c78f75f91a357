#include "tools/heapsnap/watched_process.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/clock.h"
#include "heap/discovery/malloc_discovery.h"
#include "platform/linux/freeze/running_process.h"
#include "platform/linux/proc/ask_again.h"
#include "platform/linux/self/nap.h"
#include "report/number_text.h"
#include "tools/capture/tracking_capture.h"
#include "tools/doctor/attach_obstacles.h"
#include "tracking/tracking_reader.h"

namespace heapsnap {

namespace {

// The look without malloc's counters at which they are searched for the last time; so they are at
// the first, second, fourth, eighth, ...
constexpr unsigned kLastSearch = 64;

}  // namespace

WatchedProcess::WatchedProcess(int pid, std::string command)
    : pid_(pid), command_(std::move(command)), comm_(proc_.comm(pid)), end_(proc_, pid) {
  ask_again(proc_, pid, [this] {
    open();
    if (!refusal_) find_recording_tracker();
  });
  if (!is_tracked() && !refusal_) {
    notes_.insert(notes_.begin(), "not tracked: heapsnap inject " + std::to_string(pid) +
                                      " adds live bytes, allocations and churn");
  }
}

void WatchedProcess::open() {
  refusal_ = nullptr;
  mallocs_.clear();
  may_have_malloc_ = false;
  notes_.clear();
  try {
    target_ = open_running_process(pid_);
    find_malloc();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kNoProcess || proc_.stat(pid_).is_kernel_task()) throw;
    refusal_ = std::current_exception();
    notes_.push_back("malloc's counters cannot be read: " + explained(error).why());
  }
}

void WatchedProcess::find_malloc() {
  comm_ = target_->process().comm;
  PreparedDiscovery prepared = prepare_discovery(*target_, DebugFileSearch());
  prepared.most_looks = PreparedDiscovery::kLooksAtRunning;
  const AllocatorVerdict& allocator = prepared.allocator;
  if (allocator.kind == AllocatorVerdict::Kind::kForeign) {
    notes_.push_back("no counters of malloc: its allocator is " + allocator.name);
    return;
  }
  mallocs_ = locate_mallocs(*target_, prepared);
  const bool is_whole = std::all_of(mallocs_.begin(), mallocs_.end(), [](const auto& malloc) {
    return !malloc.instance.malloc_par.is_null();
  });
  if (mallocs_.empty() || !is_whole) {
    mallocs_.clear();
    may_have_malloc_ = true;
    notes_.push_back("malloc: none of glibc's was found yet with all its parts");
    return;
  }
  const int tid = proc_.live_tid(pid_).value_or(pid_);
  memory_ = std::make_unique<ProcessMemory>(proc_, tid, ProcessMemory::Way::kProcMem);
  notes_.push_back(
      "malloc: what glibc " + version_text(mallocs_.front().instance.version) +
      " has from the system, read while the process changes it, so not of one instant");
}

void WatchedProcess::find_recording_tracker() {
  // Between two settings of its options it records nothing for a moment.
  constexpr std::chrono::milliseconds kChangeOfOptions{100};
  const auto directory = find_tracker(*target_, notes_);
  if (!directory) return;
  const auto records = [&] { return read_tracker_totals(target_->memory(), *directory).recording; };
  if (!records()) {
    nap(kChangeOfOptions);
    if (!records()) {
      notes_.push_back("its tracker was disabled (heapsnap eject)");
      return;
    }
  }
  tracker_ = *directory;
}

void WatchedProcess::require_memory() const {
  if (refusal_) std::rethrow_exception(refusal_);
}

void WatchedProcess::fail_untracked(const std::string& what) const {
  require_memory();
  throw Error(ErrorKind::kUnsupported, what, "the process is not tracked",
              "load the tracker: heapsnap inject " + std::to_string(pid_));
}

Error WatchedProcess::ended() const {
  return {ErrorKind::kNoProcess, command_ + " " + std::to_string(pid_),
          "process " + std::to_string(pid_) + " (" + comm_ + ") has ended"};
}

void WatchedProcess::reopen() {
  try {
    ask_again(proc_, pid_, [this] { open(); });
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kNoProcess) throw ended();
    throw;
  }
}

// Its memory is given up before it has ended.
bool WatchedProcess::is_ending() const {
  const auto tid = proc_.live_tid(pid_);
  const auto task = tid ? proc_.try_stat(*tid) : std::nullopt;
  return end_.has_come() || !task || task->is_exiting();
}

ProcessStatus WatchedProcess::living_status() const {
  auto status = read_process_status(proc_, pid_);
  // The first thread may have ended before the others.
  if (status && !status->has_memory) {
    const auto tid = proc_.live_tid(pid_);
    status = tid ? read_process_status(proc_, *tid) : std::nullopt;
  }
  if (!status || !status->has_memory || end_.has_come()) throw ended();
  return *std::move(status);
}

TrackerTotals WatchedProcess::read_tracker() {
  try {
    return read_tracker_totals(target_->memory(), *tracker_);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoProcess) throw;
    if (is_ending()) throw ended();
    throw Error(ErrorKind::kNoProcess, command_ + " " + std::to_string(pid_),
                "it executed another program, which does not have the tracker",
                "load it again: heapsnap inject " + std::to_string(pid_));
  }
}

std::optional<MallocCounters> WatchedProcess::read_malloc(uint64_t mapped,
                                                          std::vector<ArenaCounters>* arenas) {
  if (mallocs_.empty()) {
    // A program that has just been started has not loaded its C library.
    if (may_have_malloc_ && ++looks_without_malloc_ <= kLastSearch &&
        std::has_single_bit(looks_without_malloc_)) {
      reopen();
    }
    if (mallocs_.empty()) return std::nullopt;
  }
  try {
    return read_malloc_counters(*memory_, mallocs_, mapped, arenas);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoProcess) throw;
    if (is_ending()) throw ended();
  }
  is_replaced_ = true;
  reopen();
  return std::nullopt;
}

WatchLook WatchedProcess::look(std::vector<ArenaCounters>* arenas) {
  WatchLook look;
  if (tracker_) look.tracker = read_tracker();
  look.at_ns = realtime_ns();
  look.monotonic_ns = monotonic_ns();
  const ProcessStatus status = living_status();
  look.rss = status.rss;
  look.anonymous = status.rss_anonymous;
  look.file = status.rss_file;
  look.shmem = status.rss_shmem;
  look.swap = status.swap;
  look.threads = status.threads;
  look.malloc = read_malloc(status.mapped, arenas);
  return look;
}

}  // namespace heapsnap
