// All processes, from one pass over /proc, with what identifies them.
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
  std::string exe;                   // path, with " (deleted)" if it is; empty: not readable
  std::vector<std::string> cgroups;  // its paths in all hierarchies, without duplicates
};

// What to read for each process: every entry costs a few microseconds.
struct ListedEntries {
  bool exe = false;
  bool cgroups = false;
};

// Ascending by pid. Kernel threads, zombies, the calling process, and processes that end meanwhile
// are left out.
std::vector<ListedProcess> list_processes(const ListedEntries& entries,
                                          const std::string& proc = "/proc");

}  // namespace heapsnap
