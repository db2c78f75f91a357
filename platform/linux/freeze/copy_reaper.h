// Makes a process wait for the copies that were made of it, so that they leave no zombies.
//
//   the copy has ended            its zombie is visible to us alone as long as we trace it
//   all threads are stopped       none of them is in wait(2), none can execute another program
//     what we use is checked      the code at the gadget, the stack of the caller: what was found
//                                 at an earlier stop may be of another program
//     we release the zombie
//     the caller waits for it     wait4(copy, WNOHANG | __WALL)
//   all threads are resumed
//
// All of them are stopped because of those that wait for any child with __WALL or __WCLONE: they
// would get the copy the moment we release it. While stopped they are out of wait(2), and restart
// it afterwards.
//
// Zombies that a killed heapsnap left behind are waited for too. They are recognized by their name,
// their state and their exit signal, and are not traced.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "platform/linux/freeze/snapshot_child.h"
#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/remote_call/stopped_caller.h"
#include "platform/linux/remote_call/syscall_gadget.h"
#include "platform/linux/trace/priority_inheritance.h"
#include "platform/linux/trace/ptrace_session.h"

namespace heapsnap {

// The name of a copy, for ps(1) and to recognize its zombie by.
inline constexpr const char* kCopyName = StoppedCaller::kNote.data();

// Pids of the zombies of copies that are children of `process`.
std::vector<int> find_left_over_copies(const ProcFs& proc, int process);

// Makes `process` reap them, if there are any, on a tracing thread of its own. If that is refused
// they stay.
void reap_left_over_copies(const ProcFs& proc, int process);

// The call that waits for the copy with that pid, as the target knows it.
SystemCall reap_call(int pid_inside);

// Every function is called on one tracing thread (tracer_thread.h).
class CopyReaper {
 public:
  // `gadget`: as found earlier; it is searched for again if it is no longer there.
  CopyReaper(const ProcFs& proc, int process, std::optional<SyscallGadget> gadget)
      : proc_(proc), process_(process), gadget_(gadget) {}

  // Reaps `copy`, which has ended and is still ours, and all that are left over. Stops the process
  // again and again, each time for a moment, until one of its threads can do that where it is
  // stopped, or `deadline` passes. Throws EndAsked where no Repair lives (base/alteration.h), and
  // for lack of memory.
  void reap(const SnapshotChild* copy, TraceClock::time_point deadline);

  // How long its threads were stopped, in total.
  std::chrono::nanoseconds pause() const { return pause_; }
  // Zombies that could not be reaped, and why; empty if all are gone.
  const std::string& remains() const { return remains_; }
  // What else an operator should know.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Zombie {
    int pid = 0;
    int pid_inside = 0;  // by which the target knows it
  };

  // One stop. Says in remains_ why there are zombies left.
  void attempt(PriorityInheritance& inheritance, TraceClock::time_point deadline);
  void reap_while_stopped(PtraceSession& session, PriorityInheritance& inheritance,
                          TraceClock::time_point deadline);
  bool find_gadget();
  // The zombies that are still children of the target, none of whose threads can reap one now; it
  // forgets the others.
  std::vector<Zombie> find_left();
  bool is_left(int pid) const;

  ProcFs proc_;
  int process_;
  std::optional<SyscallGadget> gadget_;
  const SnapshotChild* copy_ = nullptr;
  std::vector<int> zombies_;  // pids
  std::chrono::nanoseconds pause_{0};
  std::string remains_;
  std::vector<std::string> notes_;
};

}  // namespace heapsnap
