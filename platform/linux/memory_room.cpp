#include "platform/linux/memory_room.h"

#include <array>

#include "platform/linux/kernel_text.h"

namespace heapsnap {

namespace {

// Fewer tasks left than this, and the target itself may soon fail to fork.
constexpr uint64_t kSpareProcesses = 2;

std::string read_or_empty(const std::string& path) {
  return read_kernel_text(path).value_or("");
}

}  // namespace

MachineMemory parse_machine_memory(std::string_view meminfo, std::string_view overcommit) {
  MachineMemory memory;
  memory.available = status_bytes(meminfo, "MemAvailable");
  memory.commit_limit = status_bytes(meminfo, "CommitLimit");
  memory.committed = status_bytes(meminfo, "Committed_AS");
  memory.strict_overcommit = parse_number(overcommit) == 2;
  return memory;
}

std::optional<CopyRefusal> find_copy_refusal(const ProcessStatus& process,
                                             const MachineMemory& machine,
                                             const CgroupLimits& limits) {
  const uint64_t wanted = room_for_copy(process.rss);
  const std::string needs =
      "a copy of " + bytes_text(process.rss) + " may need " + bytes_text(wanted);
  if (machine.available && *machine.available < wanted) {
    return CopyRefusal{"memory", "Little memory for a copy-on-write child",
                       needs + ", and MemAvailable is " + bytes_text(*machine.available), ""};
  }
  if (limits.memory && limits.memory->room() < wanted) {
    return CopyRefusal{"memory-cgroup", "The memory limit of its control group is near",
                       needs + ", and " + limits.memory->group + " has " +
                           bytes_text(limits.memory->room()) + " left of " +
                           bytes_text(limits.memory->limit),
                       ""};
  }
  if (machine.strict_overcommit && machine.commit_limit && machine.committed) {
    const uint64_t left =
        *machine.committed < *machine.commit_limit ? *machine.commit_limit - *machine.committed : 0;
    if (left < process.writable) {
      return CopyRefusal{"commit-limit", "The commit limit refuses a copy-on-write child",
                         "vm.overcommit_memory is 2, a fork counts all " +
                             bytes_text(process.writable) + " of writable memory, and " +
                             bytes_text(left) + " are left",
                         "sudo sysctl vm.overcommit_ratio=90"};
    }
  }
  if (limits.processes && limits.processes->room() < kSpareProcesses) {
    return CopyRefusal{"pids-cgroup", "The process limit of its control group is reached",
                       "pids.max of " + limits.processes->group + " is " +
                           std::to_string(limits.processes->limit) + ", and " +
                           std::to_string(limits.processes->used) + " are in use",
                       ""};
  }
  return std::nullopt;
}

std::optional<CopyRefusal> find_copy_refusal(int pid, const KernelFiles& files) {
  const std::string folder = files.proc + "/" + std::to_string(pid);
  const auto status = parse_process_status(read_or_empty(folder + "/status"));
  if (!status) return std::nullopt;
  const MachineMemory machine =
      parse_machine_memory(read_or_empty(files.proc + "/meminfo"),
                           read_or_empty(files.proc + "/sys/vm/overcommit_memory"));
  return find_copy_refusal(*status, machine,
                           read_cgroup_limits(read_or_empty(folder + "/cgroup"), files));
}

std::string bytes_text(uint64_t bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  uint64_t tenths = 0;
  for (uint64_t rest = bytes; rest >= 1024; rest /= 1024) {
    tenths = rest / 1024 * 10 + rest % 1024 * 10 / 1024;
    ++unit;
  }
  if (unit == 0) return std::to_string(bytes) + " B";
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " " + kUnits[unit];
}

}  // namespace heapsnap
