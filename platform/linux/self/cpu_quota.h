// The processor time that a control group allows heapsnap itself (cpu.max of v2, cpu.cfs_quota_us
// of v1). When it is used up, the kernel keeps the whole group from running until the next period
// begins, 100 ms after the last one in general: a target that we have stopped stays stopped.
//
// It does not bind threads with real-time priority (self/realtime_priority.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "platform/linux/proc/kernel_files.h"

namespace heapsnap {

class CpuQuota {
 public:
  // The least quota of the groups in `cgroup_text`, the text of /proc/PID/cgroup, and of those
  // above; nullopt if none has one.
  static std::optional<CpuQuota> read(std::string_view cgroup_text, const KernelFiles& files = {});
  // That of this process.
  static std::optional<CpuQuota> of_self();

  // As CgroupLimit::group.
  const std::string& group() const { return group_; }
  // What it allows, in processors: 0.5 is 50 ms of 100.
  double processors() const { return processors_; }
  // For how long the group has been kept from running, since it exists.
  std::chrono::nanoseconds throttled() const;
  // Returns when a period has just begun, so that all of the quota is there, and in any case after
  // a little more than a period.
  void await_period() const;

 private:
  std::string folder_;
  std::string group_;
  double processors_ = 0;
  std::chrono::microseconds period_{0};
};

}  // namespace heapsnap
