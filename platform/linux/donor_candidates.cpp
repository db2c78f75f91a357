#include "platform/linux/donor_candidates.h"

#include <algorithm>
#include <string>

namespace heapsnap {

namespace {

constexpr size_t kDonorsTried = 24;

}  // namespace

DonorCandidates list_donor_candidates(const ProcFs& proc, int pid) {
  DonorCandidates found;
  std::vector<int> others;
  for (const int tid : proc.task_list(pid)) {
    const auto task = proc.try_stat(tid);
    if (!task || task->is_dead() || task->is_kernel_task()) continue;
    ++found.alive;
    (task->state == 'S' ? found.tids : others).push_back(tid);
  }
  found.tids.insert(found.tids.end(), others.begin(), others.end());
  if (found.tids.size() > kDonorsTried) {
    found.tids.erase(found.tids.begin() + kDonorsTried, found.tids.end());
  }
  return found;
}

bool is_only_thread(const ProcFs& proc, int pid, int tid, const DonorCandidates& before) {
  const bool another_lives = std::any_of(before.tids.begin(), before.tids.end(), [&](int other) {
    if (other == tid) return false;
    // By this path a tid that another process has got since leads nowhere.
    const auto text = proc.try_read(pid, "task/" + std::to_string(other) + "/stat");
    if (!text || text->empty()) return false;
    const TaskStat task = parse_stat(*text);
    return !task.is_dead() && !task.is_kernel_task();
  });
  return !another_lives && list_donor_candidates(proc, pid).alive == 1;
}

}  // namespace heapsnap
