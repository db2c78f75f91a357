// Whether the machine has enough left for snapshots now.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "platform/linux/proc/pressure.h"
#include "tools/collect/collect_config.h"

namespace heapsnap {

// Bytes and files; nothing where the kernel does not say.
struct MachineState {
  std::optional<uint64_t> memory_total;
  std::optional<uint64_t> memory_available;
  std::optional<uint64_t> disk_total;  // of the store's file system
  std::optional<uint64_t> disk_free;
  bool has_free_files = true;  // inodes
  Pressure pressure;
};

// `store` is open, on the file system that is meant.
MachineState read_machine_state(int store);

// The first rule that prevents a snapshot, with its figures; nothing when none does.
std::optional<std::string> find_skip_reason(const SkipRules& rules, const MachineState& state);

}  // namespace heapsnap
