#include "tools/collect/skip_reason.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/machine_memory.h"
#include "report/number_text.h"

namespace heapsnap {

MachineState read_machine_state(int store) {
  MachineState state;
  const MachineTotals totals = read_machine_totals();
  state.memory_total = totals.total;
  state.memory_available = totals.available;
  struct statvfs disk {};
  if (::fstatvfs(store, &disk) == 0 && disk.f_blocks != 0) {  // 0: it does not count them
    state.disk_total = uint64_t{disk.f_blocks} * disk.f_frsize;
    state.disk_free = uint64_t{disk.f_bavail} * disk.f_frsize;
    state.has_free_files = disk.f_files == 0 || disk.f_favail > 0;
  }
  state.pressure = read_pressure();
  return state;
}

std::optional<std::string> find_skip_reason(const SkipRules& rules, const MachineState& state) {
  const auto is_low = [](const ShareOrBytes& rule, const std::optional<uint64_t>& free,
                         const std::optional<uint64_t>& total) {
    return free && (total || !rule.percent) && *free < rule.of(total.value_or(0));
  };
  if (is_low(rules.memory_below, state.memory_available, state.memory_total)) {
    return fmt::format("{} of memory is available, less than memory_below = {}",
                       size_text(*state.memory_available),
                       size_text(rules.memory_below.of(state.memory_total.value_or(0))));
  }
  if (is_low(rules.disk_below, state.disk_free, state.disk_total)) {
    return fmt::format("{} is free on the store's file system, less than disk_below = {}",
                       size_text(*state.disk_free),
                       size_text(rules.disk_below.of(state.disk_total.value_or(0))));
  }
  if (!state.has_free_files) return "the store's file system has no inodes left";
  const auto over = [](const char* what, const std::optional<double>& pressure, double limit,
                       const char* key) -> std::optional<std::string> {
    if (!pressure || *pressure <= limit) return std::nullopt;
    return fmt::format("{} pressure is {:.1f} % (some avg10), over {} = {} %", what, *pressure, key,
                       limit);
  };
  const Pressure& now = state.pressure;
  if (auto why = over("memory", now.memory, rules.memory_pressure_over, "memory_pressure_over")) {
    return why;
  }
  if (auto why = over("io", now.io, rules.io_pressure_over, "io_pressure_over")) return why;
  return over("cpu", now.processor, rules.cpu_pressure_over, "cpu_pressure_over");
}

}  // namespace heapsnap
