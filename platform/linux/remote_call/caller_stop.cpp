#include "platform/linux/remote_call/caller_stop.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "base/error.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/target_refusal.h"
#include "platform/linux/remote_call/look_patience.h"
#include "platform/linux/trace/late_tracees.h"

namespace heapsnap {

namespace {

constexpr std::chrono::milliseconds kCallerStopDeadline{500};
// For the last thread that is asked. It may be waiting for a clone of an injector that was then
// killed; on a busy machine that takes a while to end.
constexpr std::chrono::seconds kLastStopDeadline{5};
// Most allocator calls finish within a slice; a thread asleep in one must not be woken often.
constexpr std::chrono::microseconds kFirstCallerSlice{30};
constexpr std::chrono::microseconds kLongestCallerSlice{10'000};
// Between two rounds in which no thread is fit.
constexpr std::chrono::microseconds kFirstFitNap{200};
constexpr std::chrono::microseconds kLongestFitNap{20'000};

// A stopped thread cannot execute another program. It may have done so since the gadget was found;
// then `memory` throws, or reads something else there.
void check_program(int pid, const CallerTask& task, MemoryReader& memory) {
  constexpr std::array kSyscall{std::byte{0x0f}, std::byte{0x05}};
  std::array<std::byte, kSyscall.size()> code{};
  if (memory.read_exact(Address(task.gadget), code) && code == kSyscall) return;
  throw Error(ErrorKind::kNoProcess, "process " + std::to_string(pid),
              "it executed another program while heapsnap was working in it",
              "try again: its PID is that of the other program now");
}

}  // namespace

CallerStop::CallerStop(const ProcFs& proc, int pid, const CallerTask& task, MemoryReader& memory,
                       PriorityInheritance& inheritance)
    : proc_(proc), pid_(pid), memory_(memory), inheritance_(inheritance) {
  LookPatience patience(TraceClock::now());
  std::chrono::microseconds nap = kFirstFitNap;
  Obstacle obstacle;
  Answer answer = ask_threads(task, obstacle);
  while (answer == Answer::kLater && patience.bears_another(TraceClock::now())) {
    nap_beside_late_tracees(nap);
    nap = std::min(nap * 2, kLongestFitNap);
    answer = ask_threads(task, obstacle);
  }
  if (answer == Answer::kFit) return;
  if (answer == Answer::kLater) {
    obstacle.why_not += patience.text(TraceClock::now());
    obstacle.remedy = "try again when it is doing something else";
  }
  if (obstacle.remedy.empty()) obstacle.remedy = task.last_resort;
  if (obstacle.remedy.empty()) {
    obstacle.remedy =
        "take a snapshot without one: heapsnap attach --freeze stop " + std::to_string(pid_);
  }
  fail(obstacle);
}

// Leaves the fit thread in `session_` and `thread_`; if there is none, no thread stays stopped.
CallerStop::Answer CallerStop::ask_threads(const CallerTask& task, Obstacle& obstacle) {
  const CallerCandidates candidates = list_caller_candidates(proc_, pid_);
  if (candidates.alive == 0) {
    throw Error(ErrorKind::kNoProcess, "no process " + std::to_string(pid_), "it has just ended",
                kFindSuccessor);
  }
  Answer answer = Answer::kNever;
  obstacle = {"no thread of it could be stopped", {}};
  for (const int tid : candidates.tids) {
    inheritance_.raise(tid);
    tid_ = tid;
    session_ = std::make_unique<PtraceSession>(proc_, pid_);
    const bool is_last = tid == candidates.tids.back();
    thread_ = session_->stop_one(
        tid, TraceClock::now() + (is_last ? TraceClock::duration(kLastStopDeadline)
                                          : TraceClock::duration(kCallerStopDeadline)));
    if (thread_ == nullptr) {
      obstacle = {"thread " + std::to_string(tid) + " did not stop: it waits in the kernel", {}};
      answer = Answer::kLater;
      continue;
    }
    check_program(pid_, task, memory_);
    const Fitness fitness = look_at_thread(task, candidates);
    is_group_stopped_ = thread_->stop() == Tracee::Stop::kGroupStop;
    if (fitness.why_not.empty()) return Answer::kFit;
    obstacle = {"thread " + std::to_string(tid) + ": " + fitness.why_not, fitness.remedy};
    if (fitness.may_pass) answer = Answer::kLater;
  }
  inheritance_.end();
  session_->release();
  return answer;
}

void CallerStop::fail(const Obstacle& obstacle) const {
  // The code that explains refusals names the other tracer.
  const std::string status = proc_.try_read(pid_, "status").value_or(std::string());
  const auto tracer = status_number(status, "TracerPid").value_or(0);
  if (tracer != 0 && tracer != static_cast<uint64_t>(::gettid())) throw TargetRefusal(pid_, EPERM);
  // If it was traced until a moment ago, /proc did not show that it is stopped.
  if (is_group_stopped_) {
    throw Error(
        ErrorKind::kUnsupported,
        "no thread of process " + std::to_string(pid_) + " can make system calls for heapsnap",
        "it is stopped (SIGSTOP)", "continue it first: kill -CONT " + std::to_string(pid_));
  }
  throw Error(
      ErrorKind::kUnsupported,
      "no thread of process " + std::to_string(pid_) + " can make system calls for heapsnap",
      obstacle.why_not, obstacle.remedy);
}

Fitness CallerStop::look_at_thread(const CallerTask& task, const CallerCandidates& before) {
  is_only_thread_ = heapsnap::is_only_thread(proc_, pid_, tid(), before);
  Fitness fitness = fitness_of(proc_, *thread_, task, is_only_thread_);
  frame_top_ = fitness.frame_top;
  return fitness;
}

bool CallerStop::let_run(std::chrono::microseconds slice, TraceClock::time_point deadline) {
  const auto begin = TraceClock::now();
  if (!session_->let_run(*thread_, slice, deadline)) return false;
  ran_ += std::min<std::chrono::nanoseconds>(TraceClock::now() - begin, slice);
  return true;
}

// A traced thread stops for each signal. Where a timer sends the next one before it is looked at
// and runs on, nothing but handlers would run.
bool CallerStop::let_run_untraced(std::chrono::microseconds slice,
                                  TraceClock::time_point deadline) {
  inheritance_.end();
  session_->release();
  earlier_pauses_.push_back(pause());
  ran_ = {};
  nap_beside_late_tracees(slice);
  session_ = std::make_unique<PtraceSession>(proc_, pid_);
  thread_ = session_->stop_one(tid_, deadline);
  return thread_ != nullptr;
}

std::string CallerStop::why_not_left(
    const CallerTask& task, const std::function<bool(const user_regs_struct&)>& is_inside) {
  LookPatience patience(TraceClock::now());
  std::chrono::microseconds slice = kFirstCallerSlice;
  bool has_signals = false;
  while (true) {
    const auto look = TraceClock::now();
    std::string why_not;
    if (is_inside(thread_->registers())) {
      why_not = "its only thread is inside the allocator, the loader or fork";
    } else {
      why_not = look_at_thread(task, list_caller_candidates(proc_, pid_)).why_not;
      if (why_not.empty()) return {};
    }
    const auto now = TraceClock::now();
    has_signals |= thread_->stop() == Tracee::Stop::kSignal;
    // It runs as long as it stands, at least.
    const auto untraced =
        std::max(slice, std::chrono::duration_cast<std::chrono::microseconds>(now - look));
    if (!patience.bears_another(now) || !(has_signals ? let_run_untraced(untraced, patience.end())
                                                      : let_run(slice, patience.end()))) {
      release();
      return why_not + patience.text(TraceClock::now());
    }
    check_program(pid_, task, memory_);
    slice = std::min(slice * 2, kLongestCallerSlice);
  }
}

void CallerStop::leave(const CallerTask& task,
                       const std::function<bool(const user_regs_struct&)>& is_inside) {
  const std::string why_not = why_not_left(task, is_inside);
  if (why_not.empty()) return;
  throw Error(ErrorKind::kUnsupported, "cannot create a thread in process " + std::to_string(pid_),
              why_not, "try again when it is doing something else");
}

bool CallerStop::try_leave(const CallerTask& task,
                           const std::function<bool(const user_regs_struct&)>& is_inside) {
  return why_not_left(task, is_inside).empty();
}

std::vector<std::chrono::nanoseconds> CallerStop::pauses() const {
  std::vector<std::chrono::nanoseconds> pauses = earlier_pauses_;
  pauses.push_back(pause());
  return pauses;
}

void CallerStop::release() noexcept {
  if (!session_ || session_->is_released()) return;
  inheritance_.end();
  session_->release();
}

}  // namespace heapsnap
