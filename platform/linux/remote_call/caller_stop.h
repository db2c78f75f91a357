// One thread of the target, stopped to make system calls for heapsnap; the others run on.
#pragma once

#include <sys/user.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "platform/linux/remote_call/caller_candidates.h"
#include "platform/linux/remote_call/caller_choice.h"
#include "platform/linux/trace/priority_inheritance.h"
#include "platform/linux/trace/ptrace_session.h"
#include "target/memory_reader.h"

namespace heapsnap {

class CallerStop {
 public:
  // Stops one thread after the other until one is fit for `task`; asks sleeping ones first, and all
  // of them again while one may become fit, for five seconds. Throws TargetRefusal,
  // Error{kNoProcess} and Error{kUnsupported} with the reason for the last one. Error{kNoProcess}
  // is thrown if it executes a program other than the one with `task.gadget`. `memory` reads the
  // target; `inheritance` helps a caller get a processor. Both outlive this.
  CallerStop(const ProcFs& proc, int pid, const CallerTask& task, MemoryReader& memory,
             PriorityInheritance& inheritance);
  CallerStop(const CallerStop&) = delete;
  CallerStop& operator=(const CallerStop&) = delete;
  ~CallerStop() { release(); }

  Tracee& thread() { return *thread_; }
  int tid() const { return tid_; }
  uint64_t frame_top() const { return frame_top_; }  // for StoppedCaller
  // As of its last stop; a thread that is alone stays alone while it is stopped.
  bool is_only_thread() const { return is_only_thread_; }

  // Lets it run in short slices, untraced once a signal has stopped it in one, until `is_inside`
  // returns false for its registers and it is fit for `task` where it has stopped: it may have
  // switched to another stack, or to 32-bit code. Throws Error{kUnsupported} if that does not
  // happen, with the thread detached, and Error{kNoProcess} if the process has executed another
  // program.
  void leave(const CallerTask& task, const std::function<bool(const user_regs_struct&)>& is_inside);
  // The same, but returns false where it would throw Error{kUnsupported}.
  bool try_leave(const CallerTask& task,
                 const std::function<bool(const user_regs_struct&)>& is_inside);

  // Detaches it.
  void release() noexcept;
  // How long it was, or has been, stopped; without the slices that leave() let it run traced.
  std::chrono::nanoseconds pause() const { return session_->pause() - ran_; }
  // The same each time: before each slice that leave() let it run untraced, and the last.
  std::vector<std::chrono::nanoseconds> pauses() const;

 private:
  enum class Answer : uint8_t { kFit, kLater, kNever };
  // What is wrong with the thread examined last.
  struct Obstacle {
    std::string why_not;
    std::string remedy;
  };
  Answer ask_threads(const CallerTask& task, Obstacle& obstacle);
  Fitness look_at_thread(const CallerTask& task, const CallerCandidates& before);
  [[noreturn]] void fail(const Obstacle& obstacle) const;
  bool let_run(std::chrono::microseconds slice, TraceClock::time_point deadline);
  bool let_run_untraced(std::chrono::microseconds slice, TraceClock::time_point deadline);
  // Empty once it has left; otherwise it is detached.
  std::string why_not_left(const CallerTask& task,
                           const std::function<bool(const user_regs_struct&)>& is_inside);

  const ProcFs& proc_;
  int pid_;
  MemoryReader& memory_;
  PriorityInheritance& inheritance_;
  bool is_only_thread_ = false;
  bool is_group_stopped_ = false;  // the thread examined last
  std::unique_ptr<PtraceSession> session_;
  Tracee* thread_ = nullptr;
  int tid_ = 0;  // of it, also when it is gone
  uint64_t frame_top_ = 0;
  std::chrono::nanoseconds ran_{};  // at least, since it was stopped
  std::vector<std::chrono::nanoseconds> earlier_pauses_;
};

}  // namespace heapsnap
