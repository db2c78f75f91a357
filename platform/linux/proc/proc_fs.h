// The entries of /proc/PID that a freeze needs, read below one root, so that a folder of fixtures
// can replace /proc.
//
// Wherever a `pid` is expected, any tid of the process will do: /proc/TID exists for each of them.
// That matters when the main thread has exited (a zombie leader): then /proc/PID/maps is empty, and
// only the tid of a live thread shows the address space.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "target/mapping.h"
#include "target/process.h"

namespace heapsnap {

// What a freeze needs from /proc/PID/stat.
struct TaskStat {
  int tid = 0;
  std::string comm;
  char state = '?';    // R S D T t Z X I, proc_pid_stat(5)
  uint32_t flags = 0;  // PF_*, include/linux/sched.h
  uint64_t start_time_ticks = 0;
  int exit_signal = -1;  // the signal that its parent gets when it ends; 0: none
  // The status that wait(2) will report, once all threads of the process are being ended; for a
  // process that a signal has stopped, that signal. Also 0 where we may not trace it.
  unsigned exit_code = 0;

  bool is_dead() const { return state == 'Z' || state == 'X' || state == 'x'; }
  // In the kernel, and only what it waits for can wake it.
  bool is_uninterruptible() const { return state == 'D'; }
  // A kernel thread, or an io_uring worker, which is listed as a thread of the target but never
  // runs the target's code. Neither can be traced.
  bool is_kernel_task() const;
  // Whether it is exiting. It may still have its memory for a moment.
  bool is_exiting() const;
  // Whether it is exiting or about to, because it or its process was told to. Only for threads that
  // are not traced: the exit code of one in a ptrace-stop is the signal that stopped it.
  bool is_ending() const;
  // Whether it has executed a program since it was created; from then on its memory is its own.
  bool has_executed() const;
  bool operator==(const TaskStat&) const = default;
};

// Throws Error{kBadInput} if `text` is not a /proc/PID/stat. Does no I/O.
TaskStat parse_stat(std::string_view text);

class ProcFs {
 public:
  // `root` is where a proc file system is mounted, or a folder that looks like one.
  explicit ProcFs(std::string root = "/proc") : root_(std::move(root)) {}

  // "/proc/123/maps"
  std::string path(int pid, std::string_view entry) const;

  // The whole text of one entry. Throws TargetRefusal.
  std::string read(int pid, std::string_view entry) const;
  // The same, but returns nullopt on any failure.
  std::optional<std::string> try_read(int pid, std::string_view entry) const;

  TaskStat stat(int pid) const { return parse_stat(read(pid, "stat")); }
  // nullopt if the task is gone.
  std::optional<TaskStat> try_stat(int pid) const;
  std::string comm(int pid) const;
  // Its arguments with a space between them, not longer than 4 KiB; empty if it has none (a kernel
  // thread, a zombie) or is gone.
  std::string command_line(int pid) const;
  std::vector<Mapping> maps(int pid) const {
    return parse_maps(read(pid, "maps"), TornText::kMend);
  }
  MappingsWithUsage smaps(int pid) const {
    return parse_smaps(read(pid, "smaps"), TornText::kMend);
  }
  // The tids of all threads as the kernel lists them; empty if the process is gone.
  std::vector<int> task_list(int pid) const;
  // The pids of the children of all its threads, zombies included; empty where the kernel does not
  // list them (CONFIG_PROC_CHILDREN).
  std::vector<int> children(int pid) const;
  // The pids of one thread's children or, where the kernel does not list them, of its process's.
  std::vector<int> children_of_thread(int tid) const;
  // The first listed tid whose thread is alive and not exiting; if there is none, the first that is
  // alive; nullopt if all are dead.
  std::optional<int> live_tid(int pid) const;
  // Bytes now, from statm: cheap enough while the target is stopped. All 0 if the process is gone.
  struct Sizes {
    uint64_t mapped = 0;
    uint64_t resident = 0;
  };
  Sizes sizes(int pid) const;
  uint64_t resident_bytes(int pid) const { return sizes(pid).resident; }

  // All of Process except taken_at_ns. Throws as read() does, and Error{kUnsupported} for a kernel
  // thread or a machine that heapsnap does not know.
  Process describe(int pid) const;

 private:
  std::string root_;
};

}  // namespace heapsnap
