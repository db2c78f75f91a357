// Whether this machine has room for a copy-on-write child of the target.
//
// The child costs page tables at once, then one page for each page that the target writes to while
// the child lives: at worst all of the target's private memory. It is given up when a limit is near
// (copy_watch.h), so free memory is needed only for what can be written until it is gone:
//
//   |-- one look to the next --|-- the child is given up --|-- its memory is given back --|
//        processors that write  x  4 GB/s                     (16 GB/s)
//
// Never for less than 8 MiB: how many processors write is an estimate, from what they did before.
// If it cannot be given up in time, or if the kernel would kill the target together with it, all of
// it must fit. Under strict overcommit the kernel charges every writable private page at the fork.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "platform/linux/proc/cgroup_limits.h"
#include "platform/linux/proc/process_status.h"
#include "platform/linux/proc/task_room.h"

namespace heapsnap {

// Bytes, from /proc/meminfo; nullopt where the kernel does not say.
struct MachineMemory {
  std::optional<uint64_t> available;     // MemAvailable
  std::optional<uint64_t> commit_limit;  // CommitLimit
  std::optional<uint64_t> committed;     // Committed_AS
  bool strict_overcommit = false;        // vm.overcommit_memory is 2
};

// Parses the texts of /proc/meminfo and /proc/sys/vm/overcommit_memory. Does no I/O.
MachineMemory parse_machine_memory(std::string_view meminfo, std::string_view overcommit);

// How a copy of a process grows, and what can be done about it.
struct CopyGrowth {
  double writers = 1;           // processors that the process keeps busy (busy_clock.h)
  bool can_be_given_up = true;  // it may be killed at any time, and dies alone
};

// Bytes that stay free while a copy lives: other processes of its control group need some, too.
inline constexpr uint64_t kSpareBesideCopy = 2 << 20;

// Bytes that the process can write before a copy that is given up now is gone.
uint64_t written_until_gone(uint64_t private_bytes, double writers);

// Free memory that a copy of `process` needs.
uint64_t room_for_copy(const ProcessStatus& process, const CopyGrowth& growth);

// A reason not to fork: which limit, and what to do about it.
struct CopyRefusal {
  std::string id;  // "memory", "commit-limit", "memory-cgroup", or that of a TaskRefusal
  std::string what;
  std::string why;
  std::string remedy;
};

// The first limit that a copy of `process` would hit; nullopt if it fits.
std::optional<CopyRefusal> find_copy_refusal(const ProcessStatus& process,
                                             const MachineMemory& machine,
                                             const CgroupLimits& limits, const CopyGrowth& growth,
                                             const std::optional<UserTasks>& user_tasks = {});

// The same, read for one process now. A freeze forks only if this returns nullopt.
std::optional<CopyRefusal> find_copy_refusal(int pid, double writers,
                                             const KernelFiles& files = {});

}  // namespace heapsnap
