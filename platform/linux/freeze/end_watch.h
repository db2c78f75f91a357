// A program that heapsnap started, stopped at its end: the last state of its memory.
//
//   exit_group(2), the last exit(2), SIGKILL   every thread is stopped at PTRACE_EVENT_EXIT: in the
//                                              kernel, on its way out, the memory unchanged
//   another signal that will end it            one thread is about to get the signal, the others
//                                              were stopped where they ran
//
// EndWatch follows all threads by ptrace(2) from the start of the program. What looks like an end
// is one only if no thread can run on: a thread also reaches PTRACE_EVENT_EXIT when it exits alone
// (exit(2), a seccomp filter) or when another one calls execve(2), which waits for it. So all
// others are interrupted then, and where each of them stops shows what becomes of it:
//
//   at its own PTRACE_EVENT_EXIT                   it is being ended as well
//   in uninterruptible sleep, SIGKILL pending      the same, later; none of its code runs any more
//   anywhere else                                  it lives, and all threads are resumed
//
// The kernel marks a process as ending before any of its threads reaches that stop, and checks the
// mark before it honours an interrupt; so a thread that stops elsewhere proves that the process is
// not ending (get_signal() since Linux 5.0).
//
// Every function is called on the thread that created the object.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/trace/ptrace_session.h"
#include "platform/linux/trace/tracee.h"

namespace heapsnap {

// The threads, stopped at the end. Releasing the session ends the program, as it would have.
struct ProgramEnd {
  int tid = 0;      // of a stopped thread; the main thread may be gone
  std::string how;  // "it had called exit", "SIGTERM was about to end it"
  std::unique_ptr<PtraceSession> session;
  std::vector<Tracee> ending;  // threads that run no more code, but have yet to be waited for

  // Waits for those that have exited since, without blocking.
  void collect();
};

class EndWatch {
 public:
  // Starts tracing `pid`, a child of ours with one thread. Throws Error{kNotPermitted}.
  explicit EndWatch(pid_t pid);

  // Handles the stop of thread `tid` and resumes it; or returns the end of the program, if that is
  // what the stop is. After that nothing is watched any more.
  std::unique_ptr<ProgramEnd> on_stop(pid_t tid);
  // Thread `tid` has exited and been waited for.
  void forget(pid_t tid);

 private:
  Tracee& tracee(pid_t tid);
  bool belongs_to_program(pid_t tid) const;
  bool is_alone(pid_t tid) const;
  bool is_deadly(int signal) const;
  bool hold_all(TraceClock::time_point deadline);
  bool hold_pass(std::set<pid_t>& interrupted);
  bool is_marked_for_death(pid_t tid) const;
  bool anybody_lives() const;
  std::unique_ptr<ProgramEnd> end_at(pid_t tid);
  std::unique_ptr<ProgramEnd> give_up_to(std::string how);
  void let_go_on(Tracee& tracee);

  ProcFs proc_;
  pid_t pid_;
  std::map<pid_t, Tracee> tracees_;
  std::set<pid_t> leaving_;  // resumed from their PTRACE_EVENT_EXIT
  std::set<pid_t> asleep_;   // in uninterruptible sleep, no SIGKILL pending, when all were held
};

}  // namespace heapsnap
