// How much memory the machine has, and how much of it programs can still get: /proc/meminfo.
#pragma once

#include <cstdint>
#include <optional>

#include "platform/linux/proc/kernel_files.h"

namespace heapsnap {

// Bytes; nullopt where the kernel does not say.
struct MachineTotals {
  std::optional<uint64_t> total;      // MemTotal
  std::optional<uint64_t> available;  // MemAvailable
};
MachineTotals read_machine_totals(const KernelFiles& files = {});

}  // namespace heapsnap
