#include "platform/linux/proc/task_room.h"

#include <filesystem>

#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/resource_limits.h"

namespace heapsnap {

namespace {

// What a process may want to create at once while a task of ours exists: a server its workers, a
// shell a pipeline.
constexpr uint64_t kLeftForTarget = 8;

// The second number of "0.32 1.69 1.44 2/127 12345".
std::optional<uint64_t> tasks_of_machine(std::string_view average) {
  for (int i = 0; i < 3; ++i) take_word(average);
  const std::string_view counts = take_word(average);
  const size_t slash = counts.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  return parse_number(counts.substr(slash + 1));
}

// `of_machine`: tasks of all users. Those that /proc does not show, in a PID namespace of its own
// or by hidepid, may all be this user's.
UserTasks count_tasks(uint32_t user, uint64_t limit, uint64_t of_machine,
                      const KernelFiles& files) {
  UserTasks tasks{user, limit};
  uint64_t shown = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(files.proc, error)) {
    if (!parse_number(entry.path().filename().string())) continue;
    const auto status = parse_process_status(kernel_text_or_empty(entry.path() / "status"));
    if (!status) continue;
    shown += status->threads;
    if (status->uid.real == user) tasks.used += status->threads;
  }
  tasks.hidden = of_machine > shown ? of_machine - shown : 0;
  return tasks;
}

// Root of the machine; root of another user namespace is a user like any other.
bool is_unlimited(uint32_t user, const KernelFiles& files) {
  std::string map = kernel_text_or_empty(files.proc + "/self/uid_map");
  std::string_view rest = map;
  const bool maps_root = take_word(rest) == "0" && take_word(rest) == "0";
  return user == 0 && (map.empty() || maps_root);
}

}  // namespace

std::optional<UserTasks> read_user_tasks(const ProcessStatus& process, const KernelFiles& files) {
  const uint32_t user = process.uid.real;
  if (is_unlimited(user, files)) return std::nullopt;
  const std::string folder = files.proc + "/" + std::to_string(process.pid);
  const auto limit = soft_limit(kernel_text_or_empty(folder + "/limits"), "Max processes");
  if (!limit) return std::nullopt;
  const auto all = tasks_of_machine(kernel_text_or_empty(files.proc + "/loadavg"));
  if (all && *limit > 2 * *all + kLeftForTarget) return std::nullopt;
  return count_tasks(user, *limit, all.value_or(0), files);
}

std::optional<TaskRefusal> find_task_refusal(const CgroupLimits& limits,
                                             const std::optional<UserTasks>& user_tasks,
                                             uint64_t wanted) {
  const uint64_t needed = wanted + kLeftForTarget;
  if (limits.processes && limits.processes->room() < needed) {
    return TaskRefusal{"pids-cgroup", "The process limit of its control group is near",
                       "pids.max of " + limits.processes->group + " is " +
                           std::to_string(limits.processes->limit) + ", and " +
                           std::to_string(limits.processes->used) + " are in use"};
  }
  if (user_tasks && user_tasks->room() < needed) {
    return TaskRefusal{
        "user-tasks", "The process limit of its user is near",
        "ulimit -u of it is " + std::to_string(user_tasks->limit) + ", and user " +
            std::to_string(user_tasks->user) + " has " + std::to_string(user_tasks->used) +
            " processes and threads" +
            (user_tasks->hidden == 0 ? ""
                                     : ", and perhaps " + std::to_string(user_tasks->hidden) +
                                           " that /proc does not show")};
  }
  return std::nullopt;
}

std::optional<TaskRefusal> find_task_refusal(int pid, uint64_t wanted, const KernelFiles& files) {
  const std::string folder = files.proc + "/" + std::to_string(pid);
  const auto status = parse_process_status(kernel_text_or_empty(folder + "/status"));
  if (!status) return std::nullopt;
  return find_task_refusal(read_cgroup_limits(pid, files), read_user_tasks(*status, files), wanted);
}

}  // namespace heapsnap
