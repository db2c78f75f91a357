// The entries of /proc/PID that a freeze needs, read from one root, so that a folder of fixtures
// can stand in for /proc.
//
// Wherever a `pid` is asked for, any tid of the process will do: /proc/TID exists for each of them.
// That matters when the first thread of a process has ended (a zombie leader): /proc/PID/maps is
// empty then, and only the tid of a live thread shows the address space.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "target/mapping.h"
#include "target/process.h"

namespace heapsnap {

// What a freeze needs of /proc/PID/stat.
struct TaskStat {
  int tid = 0;
  std::string comm;
  char state = '?';    // R S D T t Z X I, proc_pid_stat(5)
  uint32_t flags = 0;  // PF_*, include/linux/sched.h
  uint64_t start_time_ticks = 0;
  int exit_signal = -1;  // what its parent is sent when it ends; 0: nothing
  // As wait(2) will tell it, once all threads of the process are being ended; of a process that a
  // signal has stopped, that signal. 0 as well where we may not trace it.
  unsigned exit_code = 0;

  bool is_dead() const { return state == 'Z' || state == 'X' || state == 'x'; }
  // In the kernel, and not to be woken by anything but what it waits for.
  bool is_uninterruptible() const { return state == 'D'; }
  // A thread of the kernel's own, or one of its io_uring workers, which are listed as threads of
  // the target but never run the target's code. Neither can be traced.
  bool is_kernel_task() const;
  // Whether it is inside its exit. For a moment it still has its memory then.
  bool is_exiting() const;
  // Whether it is exiting or about to, since it or its process was told to. Only for threads that
  // nobody traces: the exit code of one in a ptrace-stop is the signal that it has stopped for.
  bool is_ending() const;
  // Whether it has executed a program since it was made; its memory is its own from then on.
  bool has_executed() const;
  bool operator==(const TaskStat&) const = default;
};

// Throws Error{kBadInput} for text that is no /proc/PID/stat. Never reads anything.
TaskStat parse_stat(std::string_view text);

class ProcFs {
 public:
  // `root` is where a proc file system is mounted, or a folder that looks like one.
  explicit ProcFs(std::string root = "/proc") : root_(std::move(root)) {}

  // "/proc/123/maps"
  std::string path(int pid, std::string_view entry) const;

  // The whole text of one entry. Throws TargetRefusal.
  std::string read(int pid, std::string_view entry) const;
  // The same, giving nothing on any failure.
  std::optional<std::string> try_read(int pid, std::string_view entry) const;

  TaskStat stat(int pid) const { return parse_stat(read(pid, "stat")); }
  // Nothing when the task is gone.
  std::optional<TaskStat> try_stat(int pid) const;
  std::string comm(int pid) const;
  std::vector<Mapping> maps(int pid) const {
    return parse_maps(read(pid, "maps"), TornText::kMend);
  }
  MappingsWithUsage smaps(int pid) const {
    return parse_smaps(read(pid, "smaps"), TornText::kMend);
  }
  // The tids of all threads as the kernel lists them; empty when the process is gone.
  std::vector<int> task_list(int pid) const;
  // The pids of the children of all its threads, zombies included; none where the kernel does not
  // tell (CONFIG_PROC_CHILDREN).
  std::vector<int> children(int pid) const;
  // The pids of the children of one thread; where the kernel does not tell, those of its process.
  std::vector<int> children_of_thread(int tid) const;
  // The first listed tid whose thread is alive and not exiting; if all are exiting or dead, the
  // first that is alive; nothing when all are dead.
  std::optional<int> live_tid(int pid) const;
  // Bytes now, from statm: cheap enough for a pause. All 0 when the process is gone.
  struct Sizes {
    uint64_t mapped = 0;
    uint64_t resident = 0;
  };
  Sizes sizes(int pid) const;
  uint64_t resident_bytes(int pid) const { return sizes(pid).resident; }

  // Everything that Process holds but taken_at_ns. Throws as read() does, and
  // Error{kUnsupported} for a thread of the kernel or a machine that heapsnap does not know.
  Process describe(int pid) const;

 private:
  std::string root_;
};

}  // namespace heapsnap
