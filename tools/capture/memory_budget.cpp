#include "tools/capture/memory_budget.h"

#include "report/number_text.h"

namespace heapsnap {

MemoryBudget::MemoryBudget(int pid, std::optional<uint64_t> wanted, const KernelFiles& files)
    : margin_(pid, files), first_(margin_.room(UINT64_MAX).bytes) {
  constexpr uint64_t kShareOfFree = 10;
  bytes_ = wanted.value_or(first_ / kShareOfFree);
}

std::optional<std::string> MemoryBudget::why_spent() {
  const MemoryMargin::Room now = margin_.room(UINT64_MAX);
  if (now.bytes >= first_ || first_ - now.bytes <= bytes_) return std::nullopt;
  return "free memory fell by more than the budget of " + size_text(bytes_) +
         " while the process was read (" + now.limit +
         "); with --memory-budget SIZE it may fall further";
}

}  // namespace heapsnap
