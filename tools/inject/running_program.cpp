#include "tools/inject/running_program.h"

#include <signal.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string_view>
#include <thread>
#include <vector>

#include "platform/linux/freeze/copy_reaper.h"
#include "platform/linux/freeze/running_process.h"
#include "platform/linux/proc/kernel_text.h"

namespace heapsnap {

namespace {

constexpr std::chrono::seconds kLongestEnd{2};
constexpr std::chrono::milliseconds kBetweenLooks{1};
constexpr uint64_t kKillBit = uint64_t{1} << (SIGKILL - 1);

bool has_kill_pending(std::string_view status, const char* key) {
  const std::string_view text = status_field(status, key).value_or("");
  uint64_t signals = 0;
  std::from_chars(text.data(), text.data() + text.size(), signals, 16);
  return (signals & kKillBit) != 0;
}

}  // namespace

RunningProgram::RunningProgram(int pid)
    : memory_(ProcFs(), ProcFs().live_tid(pid).value_or(pid), ProcessMemory::Way::kProcMem) {
  view_ = open_running_process(pid);
}

void RunningProgram::tidy_up() {
  const Repair repair;
  try {
    reap_left_over_copies(ProcFs(), process().pid);
  } catch (const Error&) {
    // No thread could be started to trace the process.
  }
}

bool RunningProgram::has_copies() const {
  return !find_left_over_copies(ProcFs(), process().pid).empty();
}

void RunningProgram::look_again() {
  view_ = open_running_process(process().pid);
  check_runs();
}

// Threads that are being ended have SIGKILL pending, also after an exit(2) of one of them; it is no
// longer pending once they have begun to go. One alone that has ended says nothing.
bool RunningProgram::is_dying() const {
  const ProcFs proc;
  bool all_end = true;
  for (const int tid : proc.task_list(process().pid)) {
    const std::string status = proc.try_read(tid, "status").value_or("");
    if (has_kill_pending(status, "SigPnd") || has_kill_pending(status, "ShdPnd")) return true;
    const auto stat = proc.try_stat(tid);
    all_end = all_end && (!stat || stat->is_dead() || stat->is_ending());
  }
  return all_end;
}

void RunningProgram::check_runs() {
  const auto deadline = std::chrono::steady_clock::now() + kLongestEnd;
  do {
    // Whether that place is mapped does not matter.
    memory_.read_value<char>(Address());
    if (!is_dying()) return;
    std::this_thread::sleep_for(kBetweenLooks);
  } while (std::chrono::steady_clock::now() < deadline);
}

}  // namespace heapsnap
