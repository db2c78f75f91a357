// All processes in one pass over /proc, with what they are told apart by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

struct ListedProcess {
  int pid = 0;
  std::string comm;
  uint64_t start_time_ticks = 0;
  std::string exe;                   // path, with " (deleted)" where it is; empty: not readable
  std::vector<std::string> cgroups;  // its paths, of each hierarchy, without repetition
};

// What to read of each process: every entry costs some microseconds.
struct ListedEntries {
  bool exe = false;
  bool cgroups = false;
};

// Ascending by pid. Threads of the kernel, zombies and the calling process are left out, and
// processes that end meanwhile.
std::vector<ListedProcess> list_processes(const ListedEntries& entries,
                                          const std::string& proc = "/proc");

}  // namespace heapsnap
