// A process that is looked at again and again while it runs: /proc, malloc's counters, and those of
// the tracker where it has one. Nothing here stops it, writes to it or traces it.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/watch_look.h"
#include "base/error.h"
#include "heap/located_malloc.h"
#include "platform/linux/proc/process_end.h"
#include "platform/linux/proc/process_memory.h"
#include "platform/linux/proc/process_status.h"
#include "target/target.h"

namespace heapsnap {

class WatchedProcess {
 public:
  // Opens files to find malloc, which takes a tenth of a second. Where its memory may not be read,
  // only /proc remains. Throws TargetRefusal, and Error{kUnsupported} for a thread of the kernel.
  // `command`: that looks, for messages: "heapsnap watch".
  explicit WatchedProcess(int pid, std::string command = "heapsnap watch");

  int pid() const { return pid_; }
  const std::string& comm() const { return comm_; }
  bool is_tracked() const { return tracker_.has_value(); }
  // Whether it has counters of malloc, or may have them once its C library is loaded.
  bool has_malloc() const { return may_have_malloc_ || !mallocs_.empty(); }
  // Whether its memory may be read at all.
  bool can_read_memory() const { return !refusal_; }
  // What cannot be read and why, and which malloc it has: a sentence each, to print first.
  const std::vector<std::string>& notes() const { return notes_; }

  // Throws what prevents reading its memory, and so an attach.
  void require_memory() const;
  // Error{kUnsupported} that names `what` and how to load the tracker.
  [[noreturn]] void fail_untracked(const std::string& what) const;
  // Throws ended(), and Error{kNoProcess} when a tracked process executed another program.
  // `arenas`: gets each arena of malloc, where its counters can be read.
  WatchLook look(std::vector<ArenaCounters>* arenas = nullptr);
  // Whether it executed another program since the last call, so that what came before it does not
  // compare.
  bool take_replaced() { return std::exchange(is_replaced_, false); }

  bool ends_before(std::chrono::steady_clock::time_point deadline) const {
    return end_.wait_until(deadline);
  }
  bool has_ended() const { return end_.has_come(); }
  Error ended() const;

  // Of a process whose memory can be read.
  Target& target() { return *target_; }
  // Of a tracked one.
  Address tracker() const { return *tracker_; }

 private:
  void open();
  void reopen();
  void find_malloc();
  void find_recording_tracker();
  bool is_ending() const;
  ProcessStatus living_status() const;
  TrackerTotals read_tracker();
  std::optional<MallocCounters> read_malloc(uint64_t mapped, std::vector<ArenaCounters>* arenas);

  ProcFs proc_;
  int pid_;
  std::string command_;
  std::string comm_;
  ProcessEnd end_;
  std::exception_ptr refusal_;  // why there is no target_
  std::unique_ptr<Target> target_;
  std::optional<Address> tracker_;
  // Of the address space of now: after an execve it reads nothing.
  std::unique_ptr<ProcessMemory> memory_;
  std::vector<LocatedMalloc> mallocs_;
  bool may_have_malloc_ = false;  // none was found yet
  unsigned looks_without_malloc_ = 0;
  bool is_replaced_ = false;
  std::vector<std::string> notes_;
};

}  // namespace heapsnap
