#include "platform/linux/freeze/copy_reaper.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "platform/linux/freeze/freeze_notes.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/mapped_files.h"
#include "platform/linux/proc/process_memory.h"
#include "platform/linux/proc/process_status.h"
#include "platform/linux/proc/target_refusal.h"
#include "platform/linux/remote_call/caller_choice.h"
#include "platform/linux/remote_call/stopped_caller.h"
#include "platform/linux/self/realtime_priority.h"
#include "platform/linux/trace/late_tracees.h"
#include "platform/linux/trace/tracer_thread.h"

namespace heapsnap {

namespace {

// How long one stop may take.
constexpr std::chrono::milliseconds kReapStopDeadline{500};
// Between two stops, so that the threads move on in the meantime.
constexpr std::chrono::microseconds kFirstReapNap{500};
constexpr std::chrono::milliseconds kLongestReapNap{50};

constexpr std::chrono::milliseconds kLeftOverDeadline{500};

std::vector<int> namespace_pids(const ProcFs& proc, int pid) {
  const auto status = read_process_status(proc, pid);
  return status ? status->namespace_pids : std::vector<int>();
}

CallerTask task_for(const std::vector<SystemCall>& calls, const SyscallGadget& gadget) {
  CallerTask task;
  task.gadget = gadget.syscall_ret;
  task.calls = calls;
  task.calls.push_back({SYS_rt_sigreturn, {}});
  return task;
}

}  // namespace

SystemCall reap_call(int pid_inside) {
  // With these flags the call can neither block nor reap another child.
  return {SYS_wait4, {static_cast<uint64_t>(pid_inside), 0, WNOHANG | __WALL, 0, 0, 0}};
}

std::vector<int> find_left_over_copies(const ProcFs& proc, int process) {
  std::vector<int> found = proc.children(process);
  std::erase_if(found, [&proc](int child) {
    const auto stat = proc.try_stat(child);
    if (!stat || stat->state != 'Z' || stat->exit_signal != 0 || stat->comm != kCopyName) {
      return true;
    }
    // A traced one is a copy that another heapsnap has just finished with.
    const std::string status = proc.try_read(child, "status").value_or(std::string());
    return status_number(status, "TracerPid") != uint64_t{0};
  });
  return found;
}

void reap_left_over_copies(const ProcFs& proc, int process) {
  if (find_left_over_copies(proc, process).empty()) return;
  TracerThread tracer;
  tracer.run([&] {
    CopyReaper(proc, process, std::nullopt).reap(nullptr, TraceClock::now() + kLeftOverDeadline);
  });
}

void CopyReaper::reap(const SnapshotChild* copy, TraceClock::time_point deadline) {
  copy_ = copy;
  zombies_.clear();
  if (copy != nullptr) zombies_.push_back(copy->pid());
  for (const int left_over : find_left_over_copies(proc_, process_)) zombies_.push_back(left_over);
  remains_.clear();
  const RealtimePriority priority;
  PriorityInheritance inheritance;
  std::chrono::microseconds nap = kFirstReapNap;
  while (!zombies_.empty()) {
    attempt(inheritance, std::min(deadline, TraceClock::now() + kReapStopDeadline));
    // A target that has ended in the meantime left its children to its own parent, or to init.
    if (!proc_.live_tid(process_)) zombies_.clear();
    if (zombies_.empty() || TraceClock::now() + nap >= deadline) break;
    nap_beside_late_tracees(nap);
    nap = std::min<std::chrono::microseconds>(nap * 2, kLongestReapNap);
  }
  if (zombies_.empty()) remains_.clear();
}

void CopyReaper::attempt(PriorityInheritance& inheritance, TraceClock::time_point deadline) {
  if (!gadget_ && !find_gadget()) {
    // A program that is just being executed has none of its code mapped yet.
    remains_ = "its code contains no usable syscall instruction";
    return;
  }
  PtraceSession session(proc_, process_);
  try {
    session.seize_all();
    session.stop_all(deadline, inheritance);
    session.deliver_signals(deadline, inheritance);
    reap_while_stopped(session, inheritance, deadline);
  } catch (const TargetRefusal& refusal) {
    remains_ = "it can no longer be traced: " + errno_text(refusal.error_number());
  } catch (const Error& error) {
    remains_ = error.why();
  }
  inheritance.end();
  session.release();
  pause_ += session.pause();
  session.await_stragglers(deadline);
}

void CopyReaper::reap_while_stopped(PtraceSession& session, PriorityInheritance& inheritance,
                                    TraceClock::time_point deadline) {
  if (session.may_execute()) {
    remains_ = "it is about to execute another program";
    return;
  }
  // Since they were listed, the target may have reaped one, and have another child of that number.
  const std::vector<Zombie> left = find_left();
  if (left.empty()) {
    remains_ = "the number that the target knows it by cannot be read";
    return;
  }
  std::vector<SystemCall> calls;
  for (const Zombie& zombie : left) calls.push_back(reap_call(zombie.pid_inside));
  const auto chosen =
      choose_caller(proc_, process_, session.tracees(), task_for(calls, *gadget_), remains_);
  if (!chosen) return;
  Tracee& caller = session.tracees()[chosen->index];
  TraceeMemory memory(caller);
  if (!gadget_->is_in(memory)) {
    gadget_.reset();
    remains_ = "it has executed another program";
    return;
  }
  inheritance.raise(caller.tid());
  StoppedCaller stopped_caller(caller, *gadget_, chosen->frame_top);
  // Everything is in place: the next thing that the caller does is to wait for it.
  if (copy_ != nullptr) copy_->let_go_of_zombie();
  std::optional<long> result = 0;
  for (const Zombie& zombie : left) {
    result = stopped_caller.call(reap_call(zombie.pid_inside), deadline);
    if (!result) break;
    if (*result == zombie.pid_inside || !is_left(zombie.pid)) std::erase(zombies_, zombie.pid);
  }
  if (!stopped_caller.give_back()) notes_.push_back(way_back_note(caller.tid()));
  remains_ = "its thread " + std::to_string(caller.tid()) + " could not wait for it";
}

bool CopyReaper::find_gadget() {
  const auto tid = proc_.live_tid(process_);
  if (!tid) return false;
  try {
    ProcessMemory memory(proc_, *tid, ProcessMemory::Way::kProcMem);
    gadget_ = find_syscall_gadget(AddressSpace(proc_.maps(*tid)), MappedFiles(proc_, *tid), memory);
  } catch (const Error&) {
    return false;  // it has just ended, or executed another program
  }
  return gadget_.has_value();
}

std::vector<CopyReaper::Zombie> CopyReaper::find_left() {
  std::erase_if(zombies_, [this](int pid) { return !is_left(pid); });
  const std::vector<int> target =
      namespace_pids(proc_, proc_.live_tid(process_).value_or(process_));
  std::vector<Zombie> left;
  for (const int pid : zombies_) {
    const std::vector<int> pids = namespace_pids(proc_, pid);
    if (target.empty() || pids.size() < target.size()) continue;
    left.push_back({pid, pids[target.size() - 1]});
  }
  return left;
}

bool CopyReaper::is_left(int pid) const {
  const auto status = proc_.try_read(pid, "status");
  if (!status) return ::kill(pid, 0) == 0 || errno != ESRCH;
  return status_number(*status, "PPid") == static_cast<uint64_t>(process_);
}

}  // namespace heapsnap
