// Everything that decides whether and how well an attach works, as plain data.
//
// Gathering is separate from judging (attach_obstacles.h): tests use fixtures instead of /proc, or
// construct the facts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heap/discovery/allocator_verdict.h"
#include "platform/linux/proc/access_probe.h"
#include "platform/linux/proc/cgroup_limits.h"
#include "platform/linux/proc/container_context.h"
#include "platform/linux/proc/kernel_files.h"
#include "platform/linux/proc/memory_room.h"
#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/proc/process_status.h"
#include "platform/linux/proc/seccomp_filter.h"
#include "platform/linux/proc/task_room.h"

namespace heapsnap {

struct KernelVersion {
  unsigned major = 0;
  unsigned minor = 0;
  auto operator<=>(const KernelVersion&) const = default;
};
// "6.1.0-18-amd64" of /proc/sys/kernel/osrelease; 0.0 for anything else.
KernelVersion parse_kernel_version(std::string_view text);

// About heapsnap itself and the machine.
struct MachineFacts {
  KernelVersion kernel;
  ProcessStatus self;
  OwnSyscalls syscalls;  // unknown unless probed
  ContainerContext here;
  bool init_is_filtered = true;  // process 1 runs under a seccomp filter, as all of a container do
  std::optional<unsigned> yama_scope;  // nothing: no Yama
  std::string security_modules;        // "capability,yama,apparmor"; empty where not readable
  bool selinux_enforcing = false;
  bool selinux_denies_ptrace = false;  // the boolean deny_ptrace is on
  std::string own_label;               // /proc/self/attr/current
  MachineMemory memory;
};

enum class Presence : uint8_t {
  kAbsent,
  kHidden,  // it exists, but /proc (hidepid) does not show it
  kPresent,
};

enum class UserNamespace : uint8_t {
  kUnknown,
  kSame,
  kBelow,  // ours is an ancestor: our capabilities count there
  kOther,  // our capabilities count for nothing there
};

// About the target.
struct TargetFacts {
  int pid = 0;  // as it was asked for
  Presence presence = Presence::kAbsent;
  // The rest only when it is present.
  TaskStat stat;                // of the process, not of a thread
  ProcessStatus status;         // the same
  std::optional<int> live_tid;  // none: all threads are dead
  bool is_self = false;
  Access access = Access::kUnknown;  // unknown unless probed
  std::string tracer_name;
  // Owner of the files in /proc/PID: root when the target is not dumpable, else its own user.
  std::optional<uint32_t> files_owner;
  bool is_descendant = false;  // of heapsnap
  UserNamespace user_namespace = UserNamespace::kUnknown;
  bool other_pid_namespace = false;
  bool other_mount_namespace = false;
  bool children_in_other_pid_namespace = false;  // it called unshare(CLONE_NEWPID) or setns
  std::string label;                             // of its security module
  std::optional<uint16_t> elf_machine;           // EM_*; none where its program cannot be read
  // By the target's files, if the caller has read them; else unknown.
  AllocatorVerdict allocator;
  std::optional<int> stuck_tid;      // a thread in state D
  std::optional<int> stuck_syscall;  // what it is in, where the kernel says
  CgroupLimits limits;
  std::optional<UserTasks> user_tasks;
  double busy_processors = 0;  // while we looked
  bool may_be_killed = true;   // by us
  // Whether we could open /proc/PID/mem and pagemap: beside permission to trace it takes that of
  // their owner, or CAP_DAC_READ_SEARCH.
  bool memory_file_readable = false;
  bool page_map_readable = false;
};

struct AttachFacts {
  MachineFacts machine;
  std::optional<TargetFacts> target;  // none when no process was named
};

// Reads files only. What cannot be read keeps its default.
MachineFacts gather_machine_facts(const KernelFiles& files);
TargetFacts gather_target_facts(int pid, const KernelFiles& files);

// All of the running machine, with the calls that probe it. `pid` 0: the machine alone.
AttachFacts gather_attach_facts(int pid);

}  // namespace heapsnap
