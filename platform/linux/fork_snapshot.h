// A copy-on-write child of the target: its memory at one instant, to be read at leisure.
//
//   take()     threads stand   a donor thread makes the clone, which gives up the target's files;
//                              everybody is let go
//   settle()   target runs     the child is marked as ours
//   discard()  target runs     the child is killed; a passing thread of the target reaps it
//
// The child is made with exit signal 0, so the target gets no SIGCHLD and its own wait() never
// shows it. It sits in its first instruction, at `syscall; ret` with a stack that leads to
// exit_group, so set free by accident it ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "platform/linux/priority_loan.h"
#include "platform/linux/proc_fs.h"
#include "platform/linux/ptrace_session.h"
#include "platform/linux/seccomp_filter.h"
#include "platform/linux/snapshot_child.h"
#include "platform/linux/syscall_gadget.h"

namespace heapsnap {

class ForkSnapshot {
 public:
  // The name that the child is given, for ps(1) and for those who find a zombie of a heapsnap that
  // was killed.
  static constexpr const char* kChildName = "heapsnap-copy";

  // Why process `tid` must not be forked at all, read while it runs: too little memory, too many
  // processes, shadow stacks, children that would found a new pid namespace. Nothing when it may.
  static std::optional<std::string> refusal(const ProcFs& proc, int process, int tid);

  // Forks the process whose threads `session` holds, and releases the session. On failure gives
  // nothing, the reason in `why_not`, and the threads still stand; unless the session says that it
  // is released: then the copy got stuck, and the target runs.
  static std::unique_ptr<ForkSnapshot> take(const ProcFs& proc, int process, PtraceSession& session,
                                            const SyscallGadget& gadget, PriorityLoan& loan,
                                            TraceClock::time_point deadline, std::string& why_not);

  ForkSnapshot(const ForkSnapshot&) = delete;
  ForkSnapshot& operator=(const ForkSnapshot&) = delete;
  ~ForkSnapshot() { discard(); }

  // Awaits the child and prepares it for a longer life. False when it is gone.
  bool settle();

  SnapshotChild& child() { return child_; }
  // Whether the child may open files of its own: the table is not the target's any more.
  bool owns_files() const { return owns_files_; }

  // Kills the child and has the target reap it. Later calls do nothing.
  void discard() noexcept;
  // How long the one thread that reaped stood still.
  std::chrono::nanoseconds reap_pause() const { return reap_pause_; }
  // What an operator would want to know: what could not be had, what was left in the target.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  ForkSnapshot(const ProcFs& proc, int process, int donor_tid, const SyscallGadget& gadget,
               SnapshotChild child)
      : proc_(proc), process_(process), donor_tid_(donor_tid), gadget_(gadget), child_(child) {}

  void give_up_files(TraceClock::time_point deadline);
  void end_closing(TraceClock::time_point deadline);
  bool lets_fail(const SystemCall& call) const;
  int pid_inside(int pid) const;
  void reap(int zombie);
  void note_donor(int tid, bool was_caught);
  bool reap_by(int tid, int zombie, PriorityLoan& loan, std::string& why_not);

  ProcFs proc_;
  int process_;
  int donor_tid_;
  SyscallGadget gadget_;
  SnapshotChild child_;
  SeccompFilters filters_;
  bool is_born_ = false;
  bool is_closing_ = false;  // its call has not ended
  bool owns_files_ = false;
  bool discarded_ = false;
  std::chrono::nanoseconds reap_pause_{0};
  std::vector<std::string> notes_;
};

}  // namespace heapsnap
