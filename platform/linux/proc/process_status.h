// What /proc/PID/status says about a process or thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/proc/seccomp_filter.h"

namespace heapsnap {

// The four ids on a line "Uid:" or "Gid:", credentials(7).
struct ProcessIds {
  uint32_t real = 0;
  uint32_t effective = 0;
  uint32_t saved = 0;
  uint32_t filesystem = 0;
  bool operator==(const ProcessIds&) const = default;
};

struct ProcessStatus {
  std::string name;
  char state = '?';  // R, S, D, T (stopped), t (traced), Z, X, I; proc_pid_status(5)
  int pid = 0;       // the tid of a thread
  int thread_group = 0;
  int parent = 0;
  int tracer = 0;  // 0: not traced, or traced from another pid namespace
  ProcessIds uid;
  ProcessIds gid;
  // The pid in each nested pid namespace, from that of /proc inwards; empty before Linux 4.1.
  std::vector<int> namespace_pids;
  uint64_t capabilities_permitted = 0;
  uint64_t capabilities_effective = 0;
  // The most that its programs can get, by being root or by file capabilities.
  uint64_t capabilities_bounding = 0;
  SeccompMode seccomp = SeccompMode::kUnknown;
  uint64_t threads = 0;
  // Bit N-1 for signal N: pending for this thread, pending for the process, blocked by the thread.
  uint64_t pending_signals = 0;
  uint64_t shared_pending_signals = 0;
  uint64_t blocked_signals = 0;
  uint64_t ignored_signals = 0;  // of the process
  uint64_t caught_signals = 0;
  // Bytes. A kernel thread, a zombie and an exiting process have no memory.
  bool has_memory = false;
  uint64_t mapped = 0;
  uint64_t rss = 0;
  uint64_t rss_anonymous = 0;  // its parts, since Linux 4.5
  uint64_t rss_file = 0;
  uint64_t rss_shmem = 0;
  uint64_t swap = 0;
  uint64_t page_tables = 0;
  uint64_t writable = 0;  // VmData + VmStk: private and writable, touched or not
  uint64_t locked = 0;
  uint64_t hugetlb = 0;
  bool shadow_stack = false;

  bool is_zombie() const { return state == 'Z'; }
  // Resident anonymous bytes; all resident ones where the kernel does not tell.
  uint64_t anonymous_or_rss() const { return rss_anonymous != 0 ? rss_anonymous : rss; }
};

// Parses the text of /proc/PID/status; nullopt without a name and a state. Other missing lines
// (older kernels) leave their default. Does no I/O.
std::optional<ProcessStatus> parse_process_status(std::string_view text);
// The same for process or thread `tid` now; nullopt if it is gone.
std::optional<ProcessStatus> read_process_status(const ProcFs& proc, int tid);

// Whether the kernel considers `self` the owner of `target` when it checks real ids
// (PTRACE_MODE_REALCREDS): the target's three user ids and three group ids must all be ours.
bool owns(const ProcessStatus& self, const ProcessStatus& target);

// Capability bits, capabilities(7).
inline constexpr uint64_t kCapDacReadSearch = uint64_t{1} << 2;
inline constexpr uint64_t kCapSysPtrace = uint64_t{1} << 19;
inline constexpr uint64_t kCapSysAdmin = uint64_t{1} << 21;

// "CAP_NET_BIND_SERVICE, CAP_SYS_ADMIN"; unknown bits by number; at most four of them.
std::string capability_names(uint64_t bits);

}  // namespace heapsnap
