#include "platform/linux/proc/common_memory.h"

#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "platform/linux/proc/kernel_text.h"

namespace heapsnap {

namespace {

// How many times to look if the first process's figures keep changing.
constexpr int kMostLooksAtMemory = 5;

// The lines of /proc/PID/status about the memory.
std::string memory_figures(const ProcFs& proc, int pid) {
  const std::string status = proc.try_read(pid, "status").value_or(std::string());
  std::string figures;
  std::string_view rest = status;
  while (const auto line = take_line(rest)) {
    if (line->starts_with("Vm") || line->starts_with("Rss")) figures.append(*line).push_back('\n');
  }
  return figures;
}

}  // namespace

CommonMemory common_memory(const ProcFs& proc, int pid, int child) {
  const long order = ::syscall(SYS_kcmp, pid, child, KCMP_VM, 0, 0);
  if (order >= 0) return order == 0 ? CommonMemory::kYes : CommonMemory::kNo;
  if (errno == ESRCH) return CommonMemory::kNo;
  const auto task = proc.try_stat(child);
  if (!task || task->is_dead() || task->has_executed()) return CommonMemory::kNo;
  return have_different_memory(proc, pid, child) ? CommonMemory::kNo : CommonMemory::kPerhaps;
}

bool have_different_memory(const ProcFs& proc, int pid, int child) {
  std::string before = memory_figures(proc, pid);
  for (int look = 0; look < kMostLooksAtMemory && !before.empty(); ++look) {
    const std::string other = memory_figures(proc, child);
    if (other == before) return false;
    std::string after = memory_figures(proc, pid);
    if (after == before) return true;
    before = std::move(after);
  }
  return false;
}

}  // namespace heapsnap
