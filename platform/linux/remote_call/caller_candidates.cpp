#include "platform/linux/remote_call/caller_candidates.h"

#include <algorithm>
#include <string>

namespace heapsnap {

namespace {

constexpr size_t kCallersTried = 24;

}  // namespace

CallerCandidates list_caller_candidates(const ProcFs& proc, int pid) {
  CallerCandidates found;
  std::vector<int> others;
  for (const int tid : proc.task_list(pid)) {
    const auto task = proc.try_stat(tid);
    if (!task || task->is_dead() || task->is_kernel_task()) continue;
    ++found.alive;
    (task->state == 'S' ? found.tids : others).push_back(tid);
  }
  found.tids.insert(found.tids.end(), others.begin(), others.end());
  if (found.tids.size() > kCallersTried) {
    found.tids.erase(found.tids.begin() + kCallersTried, found.tids.end());
  }
  return found;
}

bool is_only_thread(const ProcFs& proc, int pid, int tid, const CallerCandidates& before) {
  const bool another_lives = std::any_of(before.tids.begin(), before.tids.end(), [&](int other) {
    if (other == tid) return false;
    // This path does not exist for a tid that now belongs to another process.
    const auto text = proc.try_read(pid, "task/" + std::to_string(other) + "/stat");
    if (!text || text->empty()) return false;
    const TaskStat task = parse_stat(*text);
    return !task.is_dead() && !task.is_kernel_task();
  });
  return !another_lives && list_caller_candidates(proc, pid).alive == 1;
}

}  // namespace heapsnap
