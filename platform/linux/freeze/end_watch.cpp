#include "platform/linux/freeze/end_watch.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "platform/linux/proc/process_status.h"
#include "platform/linux/trace/interrupted_syscall.h"

namespace heapsnap {

namespace {

constexpr unsigned long kFollow = PTRACE_O_TRACEEXIT | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
// A thread that is busy in the kernel stops when it leaves the kernel. If that takes this long, all
// threads are resumed, and the end goes unseen rather than be held up.
constexpr std::chrono::seconds kLongestHold{30};
constexpr timespec kHoldNap{0, 50'000};

constexpr uint64_t bit_of(int signal) {
  return uint64_t{1} << (signal - 1);
}

// Signals whose default action does not end a process, signal(7).
constexpr uint64_t kHarmless = bit_of(SIGCHLD) | bit_of(SIGURG) | bit_of(SIGWINCH) |
                               bit_of(SIGCONT) | bit_of(SIGSTOP) | bit_of(SIGTSTP) |
                               bit_of(SIGTTIN) | bit_of(SIGTTOU);

std::string name_of(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

bool is_at_exit(const Tracee& tracee) {
  return tracee.stop() == Tracee::Stop::kEvent && tracee.event() == PTRACE_EVENT_EXIT;
}

// Whether it is about to end itself alone.
bool called_exit(const Tracee& tracee) {
  return is_at_exit(tracee) && tracee.registers().orig_rax == SYS_exit;
}

// Describes the status that a thread carries at its PTRACE_EVENT_EXIT.
std::string how_it_ended(uint64_t status) {
  const int signal = static_cast<int>(status & 0x7f);
  return signal == 0 ? "it had called exit" : name_of(signal) + " had killed it";
}

}  // namespace

EndWatch::EndWatch(pid_t pid) : pid_(pid) {
  Tracee first(pid, pid, Tracee::Zombie::kKept);  // our child: its end is waited for elsewhere
  const int refusal = first.seize(kFollow);
  if (refusal != 0) {
    throw Error(ErrorKind::kNotPermitted, "cannot watch the exit of the program",
                ::strerror(refusal), "run it without --at-exit, or allow ptrace for it");
  }
  tracees_.emplace(pid, first);
}

Tracee& EndWatch::tracee(pid_t tid) {
  const auto zombie = tid == pid_ ? Tracee::Zombie::kKept : Tracee::Zombie::kGivenUp;
  return tracees_.try_emplace(tid, pid_, tid, zombie).first->second;
}

void EndWatch::forget(pid_t tid) {
  tracees_.erase(tid);
  leaving_.erase(tid);
}

bool EndWatch::belongs_to_program(pid_t tid) const {
  const std::vector<int> tids = proc_.task_list(pid_);
  return std::find(tids.begin(), tids.end(), tid) != tids.end();
}

// Whether no other thread can run on once this one is gone.
bool EndWatch::is_alone(pid_t tid) const {
  const std::vector<int> tids = proc_.task_list(pid_);
  return std::all_of(tids.begin(), tids.end(), [&](int other) {
    if (other == tid || leaving_.contains(other)) return true;
    const auto task = proc_.try_stat(other);
    return !task || task->is_dead() || task->is_kernel_task();
  });
}

bool EndWatch::is_deadly(int signal) const {
  if ((kHarmless & bit_of(signal)) != 0) return false;
  const auto status = read_process_status(proc_, pid_);
  if (!status || ((status->ignored_signals | status->caught_signals) & bit_of(signal)) != 0) {
    return false;
  }
  // The init process of a pid namespace gets only signals for which it has a handler.
  return status->namespace_pids.empty() || status->namespace_pids.back() != 1;
}

bool EndWatch::is_marked_for_death(pid_t tid) const {
  const auto status = read_process_status(proc_, tid);
  return status && (status->pending_signals & bit_of(SIGKILL)) != 0;
}

// Looks at every thread once. Returns true if all were stopped before it began, so that none can
// have created another.
bool EndWatch::hold_pass(std::set<pid_t>& interrupted) {
  bool all_stopped = true;
  asleep_.clear();
  for (const int tid : proc_.task_list(pid_)) {
    if (leaving_.contains(tid)) {
      // Until it is dead it looks like a thread whose memory could be read.
      const auto task = proc_.try_stat(tid);
      all_stopped = all_stopped && (!task || task->is_dead());
      continue;
    }
    Tracee& thread = tracee(tid);
    if (thread.is_gone()) continue;
    // SIGKILL wakes a thread from any stop but the one at its exit.
    if (thread.is_stopped() && thread.load_registers()) continue;
    thread.forget_stop();
    if (interrupted.insert(tid).second) thread.interrupt();
    if (thread.poll()) {
      const auto repaired = repaired_registers(thread);
      if (repaired) thread.set_registers(*repaired);
      all_stopped = all_stopped && thread.is_gone();
      continue;
    }
    const auto task = proc_.try_stat(tid);
    if (!task || task->is_dead() || task->is_kernel_task()) continue;
    if (!task->is_uninterruptible()) {
      all_stopped = false;
    } else if (!is_marked_for_death(tid)) {
      asleep_.insert(tid);
    }
  }
  return all_stopped;
}

bool EndWatch::hold_all(TraceClock::time_point deadline) {
  std::set<pid_t> interrupted;
  while (!hold_pass(interrupted)) {
    if (TraceClock::now() >= deadline) return false;
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &kHoldNap, nullptr);
  }
  return true;
}

bool EndWatch::anybody_lives() const {
  return !asleep_.empty() || std::any_of(tracees_.begin(), tracees_.end(), [](const auto& entry) {
    return entry.second.is_stopped() && !is_at_exit(entry.second);
  });
}

void EndWatch::let_go_on(Tracee& thread) {
  if (is_at_exit(thread)) leaving_.insert(thread.tid());
  if (thread.stop() == Tracee::Stop::kGroupStop) {
    thread.listen();
  } else {
    thread.resume();
  }
}

// Returns the program's end, if that is the reason for the stop of `tid`; else resumes all threads.
std::unique_ptr<ProgramEnd> EndWatch::end_at(pid_t tid) {
  if (hold_all(TraceClock::now() + kLongestHold)) {
    const Tracee& first = tracee(tid);
    if (!anybody_lives()) {
      for (const auto& [other, thread] : tracees_) {
        const auto status = is_at_exit(thread) ? thread.event_message() : std::nullopt;
        if (status) return give_up_to(how_it_ended(*status));
      }
    } else if (first.stop() == Tracee::Stop::kSignal && is_deadly(first.signal())) {
      return give_up_to(name_of(first.signal()) + " was about to kill it");
    }
  }
  for (auto& [other, thread] : tracees_) {
    if (thread.is_stopped()) let_go_on(thread);
  }
  return nullptr;
}

std::unique_ptr<ProgramEnd> EndWatch::give_up_to(std::string how) {
  auto end = std::make_unique<ProgramEnd>();
  std::vector<Tracee> stopped;
  for (auto& [tid, thread] : tracees_) {
    // A thread that is killed now still stops at its exit; new threads are the session's.
    if (thread.is_stopped()) thread.set_options(PTRACE_O_TRACEEXIT);
    if (!thread.is_gone()) (thread.is_stopped() ? stopped : end->ending).push_back(thread);
  }
  tracees_.clear();
  end->how = std::move(how);
  end->session = std::make_unique<PtraceSession>(proc_, pid_, std::move(stopped));
  end->tid = end->session->live_tid();
  return end;
}

void ProgramEnd::collect() {
  if (session && !session->collect_stragglers()) session.reset();
  for (Tracee& thread : ending) {
    // One that was busy in the kernel all the time stops at its exit only now.
    if (thread.poll() && thread.is_stopped()) thread.resume();
  }
  std::erase_if(ending, [](const Tracee& thread) { return thread.is_gone(); });
}

std::unique_ptr<ProgramEnd> EndWatch::on_stop(pid_t tid) {
  // The first stop of a thread may come before its creator reports it. A process created by a clone
  // that is not a fork is not ours.
  if (!tracees_.contains(tid) && !belongs_to_program(tid)) {
    Tracee stranger(tid, tid);
    if (stranger.poll() && stranger.is_stopped()) stranger.detach();
    return nullptr;
  }
  Tracee& thread = tracee(tid);
  thread.forget_stop();
  if (!thread.poll() || !thread.is_stopped()) return nullptr;
  if (thread.stop() == Tracee::Stop::kSignal && is_deadly(thread.signal())) return end_at(tid);
  if (is_at_exit(thread) && (!called_exit(thread) || is_alone(tid))) return end_at(tid);
  if (thread.stop() == Tracee::Stop::kEvent && thread.event() == PTRACE_EVENT_EXEC) {
    const Tracee kept = thread;  // the other threads are gone
    tracees_ = {{tid, kept}};
    leaving_.clear();
    tracees_.at(tid).resume();
    return nullptr;
  }
  let_go_on(thread);
  return nullptr;
}

}  // namespace heapsnap
