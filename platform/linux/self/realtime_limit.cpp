#include "platform/linux/self/realtime_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "platform/linux/proc/cgroup_limits.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

namespace {

// Microseconds. A stopped target is read with priority for 20 ms, and stopped and resumed in less.
constexpr uint64_t kEnough = 100'000;

}  // namespace

bool has_realtime_limit(int tid) noexcept {
  rlimit limit{};
  if (::prlimit(tid, RLIMIT_RTTIME, nullptr, &limit) == 0) return limit.rlim_cur != RLIM_INFINITY;
  // Of another user, without CAP_SYS_RESOURCE: what proc_pid_limits(5) shows to everybody.
  try {
    constexpr std::string_view kNone = "Max realtime timeout      unlimited ";
    const auto limits = ProcFs().try_read(tid, "limits");
    return !limits || limits->find(kNone) == std::string::npos;
  } catch (...) {
    return true;
  }
}

bool has_small_realtime_budget(std::string_view cgroup_text, const KernelFiles& files) {
  const auto folders = cgroup_folders(cgroup_text, "cpu", files);
  return std::any_of(folders.begin(), folders.end(), [](const CgroupFolder& folder) {
    const auto runtime = parse_number(kernel_text_or_empty(folder.path + "/cpu.rt_runtime_us"));
    if (!runtime) return false;  // -1: no limit
    const auto period = parse_number(kernel_text_or_empty(folder.path + "/cpu.rt_period_us"));
    return period && *runtime < std::min(*period / 2, kEnough);
  });
}

bool may_be_realtime(int tid) noexcept try {
  if (has_realtime_limit(tid)) return false;
  // Asked while the target is stopped. What follows takes 50 us, and most systems lack such groups.
  if (::access("/sys/fs/cgroup/cpu/cpu.rt_runtime_us", F_OK) != 0) return true;
  const auto cgroups = ProcFs().try_read(tid != 0 ? tid : ::gettid(), "cgroup");
  return !cgroups || !has_small_realtime_budget(*cgroups);
} catch (...) {
  return false;
}

}  // namespace heapsnap
