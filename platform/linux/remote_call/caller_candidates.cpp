#include "platform/linux/remote_call/caller_candidates.h"

#include <algorithm>
#include <string>

namespace heapsnap {

namespace {

constexpr size_t kCallersTried = 24;

// One that is exiting never runs the target's code again, though it is listed for a moment after
// the word with its tid has been cleared.
bool runs_code_of_target(const TaskStat& task) {
  return !task.is_dead() && !task.is_exiting() && !task.is_kernel_task();
}

}  // namespace

CallerCandidates list_caller_candidates(const ProcFs& proc, int pid) {
  CallerCandidates found;
  std::vector<int> others;
  for (const int tid : proc.task_list(pid)) {
    const auto task = proc.try_stat(tid);
    if (!task || !runs_code_of_target(*task)) continue;
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
    return runs_code_of_target(parse_stat(*text));
  });
  return !another_lives && list_caller_candidates(proc, pid).alive == 1;
}

}  // namespace heapsnap
