#include "platform/linux/proc/memory_room.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>

#include "base/count_text.h"
#include "platform/linux/proc/kernel_text.h"

namespace heapsnap {

namespace {

// Copying a page on the first write to it takes a processor 1.1 us.
constexpr double kWrittenPerSecond = 4e9;
// An exiting process frees 100 MB of shared pages in about 5 ms.
constexpr double kGivenBackPerSecond = 16e9;
// From one check of the limits to the next, plus the time until a killed copy begins to exit.
constexpr double kSecondsUntilKilled = 0.004;
// What a copy takes in the kernel besides page tables, and a few pages of its own.
constexpr uint64_t kSmallChange = 1 << 20;
// What a target can always write before a copy is gone, however little of a processor it has had
// lately: it may have had none because of other processes, and has one when they sleep.
constexpr uint64_t kLeastWritten = 8 << 20;
// More than this contend: for one address space, and for one group that is charged.
constexpr double kMostWriters = 4;

}  // namespace

MachineMemory parse_machine_memory(std::string_view meminfo, std::string_view overcommit) {
  MachineMemory memory;
  memory.available = status_bytes(meminfo, "MemAvailable");
  memory.commit_limit = status_bytes(meminfo, "CommitLimit");
  memory.committed = status_bytes(meminfo, "Committed_AS");
  memory.strict_overcommit = parse_number(overcommit) == 2;
  return memory;
}

uint64_t written_until_gone(uint64_t private_bytes, double writers) {
  const double seconds =
      kSecondsUntilKilled + static_cast<double>(private_bytes) / kGivenBackPerSecond;
  const double written = std::clamp(writers, 0.0, kMostWriters) * kWrittenPerSecond * seconds;
  return std::min(private_bytes, std::max(kLeastWritten, static_cast<uint64_t>(written)));
}

uint64_t room_for_copy(const ProcessStatus& process, const CopyGrowth& growth) {
  const uint64_t own = process.anonymous_or_rss();
  const uint64_t tables = process.page_tables != 0 ? process.page_tables : process.rss / 512;
  return tables + kSmallChange +
         (growth.can_be_given_up ? written_until_gone(own, growth.writers) + kSpareBesideCopy
                                 : own);
}

std::optional<CopyRefusal> find_copy_refusal(const ProcessStatus& process,
                                             const MachineMemory& machine,
                                             const CgroupLimits& limits, const CopyGrowth& growth,
                                             const std::optional<UserTasks>& user_tasks) {
  const uint64_t wanted = room_for_copy(process, growth);
  const std::string needs =
      "a copy of " + size_text(process.rss) + " may need " + size_text(wanted);
  if (machine.available && *machine.available < wanted) {
    return CopyRefusal{"memory", "Too little memory for a copy-on-write child",
                       needs + ", and MemAvailable is " + size_text(*machine.available), ""};
  }
  if (limits.memory && limits.memory->room() < wanted) {
    return CopyRefusal{"memory-cgroup", "The memory limit of its control group is near",
                       needs + ", and " + limits.memory->group + " has " +
                           size_text(limits.memory->room()) + " left of " +
                           size_text(limits.memory->limit),
                       ""};
  }
  if (machine.strict_overcommit && machine.commit_limit && machine.committed) {
    const uint64_t left =
        *machine.committed < *machine.commit_limit ? *machine.commit_limit - *machine.committed : 0;
    if (left < process.writable) {
      return CopyRefusal{"commit-limit", "The commit limit refuses a copy-on-write child",
                         "vm.overcommit_memory is 2, a fork is charged for all " +
                             size_text(process.writable) + " of writable memory, and " +
                             size_text(left) + " is left",
                         "sudo sysctl vm.overcommit_ratio=90"};
    }
  }
  if (const auto no_task = find_task_refusal(limits, user_tasks, 1)) {
    return CopyRefusal{no_task->id, no_task->what, no_task->why, ""};
  }
  return std::nullopt;
}

std::optional<CopyRefusal> find_copy_refusal(int pid, double writers, const KernelFiles& files) {
  const std::string folder = files.proc + "/" + std::to_string(pid);
  const auto status = parse_process_status(kernel_text_or_empty(folder + "/status"));
  if (!status) return std::nullopt;
  const MachineMemory machine =
      parse_machine_memory(kernel_text_or_empty(files.proc + "/meminfo"),
                           kernel_text_or_empty(files.proc + "/sys/vm/overcommit_memory"));
  const CgroupLimits limits = read_cgroup_limits(pid, files);
  // A copy has the ids of the process, so we may kill the one if we may kill the other.
  const bool may_kill = ::kill(pid, 0) == 0 || errno != EPERM;
  return find_copy_refusal(*status, machine, limits, {writers, may_kill && !limits.dies_together},
                           read_user_tasks(*status, files));
}

}  // namespace heapsnap
