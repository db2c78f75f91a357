// A program that heapsnap started, held at its end: the last state that its memory had.
//
//   exit_group(2), the last exit(2), SIGKILL   every thread stands in PTRACE_EVENT_EXIT: in the
//                                              kernel, on its way out, the memory as it was
//   another signal that will end it            one thread is about to get the signal, the others
//                                              were stopped where they ran
//
// EndWatch follows all threads by ptrace(2) from the start of the program. What looks like an end
// is only one when nobody can go on: a thread also comes to PTRACE_EVENT_EXIT when it ends alone
// (exit(2), a seccomp filter) or when another one calls execve(2), which waits for it. So all
// others are interrupted then, and each tells by where it comes to stand:
//
//   at its own PTRACE_EVENT_EXIT                   it is ended as well
//   in uninterruptible sleep, SIGKILL pending      the same, later; none of its code runs any more
//   anywhere else                                  it lives, and everybody is let go again
//
// The kernel marks a process as ending before any of its threads comes to that stop, and looks at
// the mark before it honours an interrupt; so a thread that stands elsewhere is proof (get_signal()
// since Linux 5.0).
//
// Every function is called on the thread that made it.
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

// The threads as they stand at the end. To release the session ends the program, as it would have.
struct ProgramEnd {
  int tid = 0;      // of a thread that stands; the first one may be gone
  std::string how;  // "it had called exit", "SIGTERM was about to end it"
  std::unique_ptr<PtraceSession> session;
  std::vector<Tracee> ending;  // threads that run no code any more, but have yet to be waited for

  // Waits for those that have ended since, without blocking.
  void collect();
};

class EndWatch {
 public:
  // Begins to trace `pid`, a child of ours with one thread. Throws Error{kNotPermitted}.
  explicit EndWatch(pid_t pid);

  // Deals with the stop in which thread `tid` is, and lets it go on; or gives the end of the
  // program, when that is what it came to. Afterwards nothing is watched any more.
  std::unique_ptr<ProgramEnd> on_stop(pid_t tid);
  // Thread `tid` has ended and been waited for.
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
  std::set<pid_t> leaving_;  // let go from their PTRACE_EVENT_EXIT
  std::set<pid_t> asleep_;   // uninterruptibly, and not marked for death, when all were held
};

}  // namespace heapsnap
