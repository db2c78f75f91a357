#include "platform/linux/proc/machine_memory.h"

#include "platform/linux/proc/kernel_text.h"

namespace heapsnap {

MachineTotals read_machine_totals(const KernelFiles& files) {
  const std::string text = kernel_text_or_empty(files.proc + "/meminfo");
  return {status_bytes(text, "MemTotal"), status_bytes(text, "MemAvailable")};
}

}  // namespace heapsnap
