// Whether this machine has room for a copy-on-write child of the target.
//
// The child costs page tables at once (8 bytes a page, 1/512 of what is resident) and then one page
// for each that the target writes to while the child lives: at worst all of it. Under strict
// overcommit the kernel counts every writable private page at the fork already.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "platform/linux/cgroup_limits.h"
#include "platform/linux/process_status.h"

namespace heapsnap {

// Bytes, from /proc/meminfo; nothing where the kernel does not say.
struct MachineMemory {
  std::optional<uint64_t> available;     // MemAvailable
  std::optional<uint64_t> commit_limit;  // CommitLimit
  std::optional<uint64_t> committed;     // Committed_AS
  bool strict_overcommit = false;        // vm.overcommit_memory is 2
};

// Parses the texts of /proc/meminfo and /proc/sys/vm/overcommit_memory. Never reads anything.
MachineMemory parse_machine_memory(std::string_view meminfo, std::string_view overcommit);

// What a copy of a process with `rss` bytes resident should find free: its page tables and an
// eighth of its pages, which is more than a busy process rewrites while it is read.
constexpr uint64_t room_for_copy(uint64_t rss) {
  return rss / 512 + rss / 8;
}

// One reason not to fork: which limit, and what to do.
struct CopyRefusal {
  std::string id;  // "memory", "commit-limit", "memory-cgroup", "pids-cgroup"
  std::string what;
  std::string why;
  std::string remedy;
};

// The first limit that a copy of `process` would run into; nothing when it fits.
std::optional<CopyRefusal> find_copy_refusal(const ProcessStatus& process,
                                             const MachineMemory& machine,
                                             const CgroupLimits& limits);

// The same, read for one process now. For freezing, which forks only when this gives nothing.
std::optional<CopyRefusal> find_copy_refusal(int pid, const KernelFiles& files = {});

// "1.5 GiB", one decimal, truncated; for sentences.
std::string bytes_text(uint64_t bytes);

}  // namespace heapsnap
