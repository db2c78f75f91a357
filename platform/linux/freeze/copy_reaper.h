// Has a process wait for the copies that were made of it, so that no zombie of them stays.
//
//   the copy has ended            its zombie is shown to us alone as long as we trace it
//   all threads of it stand       none of them is in wait(2), none can execute another program
//     what stands is looked at    the code at the gadget, the stack of the caller: what was
//                                 learnt at an earlier stop may be of another program
//     we let go of the zombie
//     the caller waits for it      wait4(copy, WNOHANG | __WALL)
//   all are let go
//
// That all of them stand is for those who wait for any child with __WALL or __WCLONE: they would be
// given the copy the moment we let go of it. While they stand they are out of wait(2), and begin it
// anew afterwards.
//
// Zombies that a killed heapsnap left behind are waited for too. They are known by their name,
// their state and their exit signal, and nobody traces them.
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

// The name that a copy is given, for ps(1) and for whoever finds its zombie.
inline constexpr const char* kCopyName = StoppedCaller::kNote.data();

// Pids of the zombies of copies that are children of `process`.
std::vector<int> find_left_over_copies(const ProcFs& proc, int process);

// Has `process` reap them, if there are any, on a tracing thread of its own. Where that is refused
// they stay.
void reap_left_over_copies(const ProcFs& proc, int process);

// The call by which the copy with that pid, as the target knows it, is waited for.
SystemCall reap_call(int pid_inside);

// Every function is called on one tracing thread (tracer_thread.h).
class CopyReaper {
 public:
  // `gadget`: where it was found at an earlier look; it is searched again where it is not any
  // more.
  CopyReaper(const ProcFs& proc, int process, std::optional<SyscallGadget> gadget)
      : proc_(proc), process_(process), gadget_(gadget) {}

  // Reaps `copy`, which has ended and is still ours, and all that are left over. Stops the process
  // again and again, each time for a moment, until a thread of it stands where it can do that, or
  // `deadline` comes. Never throws but for lack of memory.
  void reap(const SnapshotChild* copy, TraceClock::time_point deadline);

  // How long its threads were stopped, in total.
  std::chrono::nanoseconds pause() const { return pause_; }
  // Zombies that could not be reaped, and why; empty when all are gone.
  const std::string& remains() const { return remains_; }
  // What else an operator would want to know.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Zombie {
    int pid = 0;
    int pid_inside = 0;
  };

  enum class Attempt { kDone, kAgain, kHopeless };
  Attempt attempt(PriorityInheritance& inheritance, TraceClock::time_point deadline);
  Attempt reap_while_stopped(PtraceSession& session, PriorityInheritance& inheritance,
                             TraceClock::time_point deadline);
  bool find_gadget();
  Zombie as_known_inside(int pid) const;
  bool is_left(const Zombie& zombie) const;

  ProcFs proc_;
  int process_;
  std::optional<SyscallGadget> gadget_;
  const SnapshotChild* copy_ = nullptr;
  std::vector<Zombie> zombies_;
  std::chrono::nanoseconds pause_{0};
  std::string remains_;
  std::vector<std::string> notes_;
};

}  // namespace heapsnap
