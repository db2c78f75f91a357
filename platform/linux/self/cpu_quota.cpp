#include "platform/linux/self/cpu_quota.h"

#include "platform/linux/proc/cgroup_limits.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/self/nap.h"

namespace heapsnap {

namespace {

struct Allowance {
  uint64_t quota = 0;   // microseconds
  uint64_t period = 0;  // the same
};

// v2: "20000 100000", or "max 100000"; v1: a file for each number, -1 for no quota.
std::optional<Allowance> read_allowance(const std::string& folder) {
  std::optional<uint64_t> quota;
  std::optional<uint64_t> period;
  if (const auto both = read_kernel_text(folder + "/cpu.max")) {
    std::string_view text = *both;
    quota = parse_number(take_word(text));
    period = parse_number(take_word(text));
  } else {
    quota = parse_number(kernel_text_or_empty(folder + "/cpu.cfs_quota_us"));
    period = parse_number(kernel_text_or_empty(folder + "/cpu.cfs_period_us"));
  }
  if (!quota || !period || *period == 0) return std::nullopt;
  return Allowance{*quota, *period};
}

uint64_t statistic(const std::string& folder, std::string_view word) {
  return cgroup_statistic(kernel_text_or_empty(folder + "/cpu.stat"), word);
}

}  // namespace

std::optional<CpuQuota> CpuQuota::read(std::string_view cgroup_text, const KernelFiles& files) {
  std::optional<CpuQuota> least;
  for (const CgroupFolder& folder : cgroup_folders(cgroup_text, "cpu", files)) {
    const std::optional<Allowance> allowance = read_allowance(folder.path);
    if (!allowance) continue;
    CpuQuota found;
    found.folder_ = folder.path;
    found.group_ = folder.group;
    found.processors_ =
        static_cast<double>(allowance->quota) / static_cast<double>(allowance->period);
    found.period_ = std::chrono::microseconds(allowance->period);
    if (!least || found.processors_ < least->processors_) least = std::move(found);
  }
  return least;
}

std::optional<CpuQuota> CpuQuota::of_self() {
  return read(kernel_text_or_empty("/proc/self/cgroup"));
}

std::chrono::nanoseconds CpuQuota::throttled() const {
  const std::string text = kernel_text_or_empty(folder_ + "/cpu.stat");
  return std::chrono::nanoseconds(cgroup_statistic(text, "throttled_time")) +  // v1
         std::chrono::microseconds(cgroup_statistic(text, "throttled_usec"));  // v2
}

void CpuQuota::await_period() const {
  constexpr std::chrono::milliseconds kBetweenLooks(1);
  const uint64_t before = statistic(folder_, "nr_periods");
  const auto deadline = std::chrono::steady_clock::now() + period_ + period_ / 10;
  while (statistic(folder_, "nr_periods") == before &&
         std::chrono::steady_clock::now() < deadline) {
    nap(kBetweenLooks);
  }
}

}  // namespace heapsnap
