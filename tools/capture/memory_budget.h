// How far free memory may fall while the copy of a process is looked at.
//
// Each page that the process writes to while its copy lives takes one more. What is free is what
// the least of its limits leaves: the machine's memory, or those of its control groups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "platform/linux/proc/kernel_files.h"
#include "platform/linux/proc/memory_margin.h"

namespace heapsnap {

class MemoryBudget {
 public:
  // From what is free now on. `wanted`: bytes; none: a tenth of what is free. `pid`: of the process
  // whose limits count; 0 for a core.
  MemoryBudget(int pid, std::optional<uint64_t> wanted, const KernelFiles& files = {});

  uint64_t bytes() const { return bytes_; }
  // Why nothing more may be spent, one clause; none: there is some left.
  std::optional<std::string> why_spent();

 private:
  MemoryMargin margin_;
  uint64_t first_;
  uint64_t bytes_;
};

}  // namespace heapsnap
