// A copy-on-write child of the target: its memory at one instant, to be read at leisure.
//
//   take()     threads stopped  a caller thread makes the clone, which is marked to be killed first
//                               when memory runs out, takes its name, and gives up the target's
//                               files; the watch begins, and all threads are resumed
//   settle()   target runs      waits for what took long
//   discard()  target runs      near a limit: the child gives its memory back; kills the child and
//                               makes the target reap it (copy_reaper.h)
//
// The child is created with exit signal 0, so the target gets no SIGCHLD and its own wait() never
// shows it. It stays at its first instruction, at `syscall; ret` with a stack that leads to
// exit_group, so if it is released by accident it exits.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "platform/linux/freeze/copy_watch.h"
#include "platform/linux/freeze/given_up_mappings.h"
#include "platform/linux/freeze/snapshot_child.h"
#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/proc/seccomp_filter.h"
#include "platform/linux/remote_call/syscall_gadget.h"
#include "platform/linux/trace/priority_inheritance.h"
#include "platform/linux/trace/ptrace_session.h"
#include "target/mapping.h"

namespace heapsnap {

class ForkSnapshot {
 public:
  // Why process `tid` must not be forked at all, found while it runs: too little memory while it
  // keeps `writers` processors busy, too many processes, shadow stacks, children that would be the
  // init of a new pid namespace, or a kernel without close_range(2). nullopt if it may be forked.
  static std::optional<std::string> refusal(const ProcFs& proc, int process, int tid,
                                            double writers);

  // What to do while both the target and its copy are stopped; returns why the copy is unusable, or
  // nullopt.
  using Meanwhile = std::function<std::optional<std::string>(int child)>;

  struct Failure {
    std::string why_not;
    std::chrono::nanoseconds reap_pause{0};  // as reap_pause() and notes()
    std::vector<std::string> notes;
  };
  // Forks the process whose threads `session` holds, calls `meanwhile`, has the child give up those
  // mappings of `shared` that it still has, as far as that is quick, and releases the session.
  // `watch`, which outlives the snapshot, looks after the copy from the clone on. On failure
  // returns null, and the threads are still stopped; unless the session is released: then the copy
  // got stuck, or is unusable, and is discarded, and the target runs.
  static std::unique_ptr<ForkSnapshot> take(const ProcFs& proc, int process, PtraceSession& session,
                                            const SyscallGadget& gadget,
                                            PriorityInheritance& inheritance, CopyWatch& watch,
                                            const Meanwhile& meanwhile,
                                            const std::vector<Mapping>& shared,
                                            TraceClock::time_point deadline, Failure& failure);

  ForkSnapshot(const ForkSnapshot&) = delete;
  ForkSnapshot& operator=(const ForkSnapshot&) = delete;
  ~ForkSnapshot() { discard(); }

  // Waits for the child and prepares it for a longer life. Returns false if it is gone.
  bool settle();

  // Makes the child give up `mappings`, which it has, one after the other until `deadline`.
  void give_up(const std::vector<Mapping>& mappings, TraceClock::time_point deadline);
  const GivenUpMappings& given_up() const { return given_up_; }

  // Puts inaccessible memory in `ranges`, where the child has none, so that nothing else is mapped
  // there by what it executes. Returns false if it cannot, or not by `deadline`.
  bool occupy(const std::vector<AddressRange>& ranges, TraceClock::time_point deadline);

  // Makes the child unable to write to memory shared with the target, before it executes any of the
  // target's code: a store through a stale pointer may hit that memory. Returns false if it can
  // still write to some. unshield_shared_memory() restores the access of the mappings.
  bool shield_shared_memory();
  void unshield_shared_memory();

  SnapshotChild& child() { return child_; }

  // Kills the child and makes the target reap it. Later calls do nothing.
  void discard() noexcept;
  // How long the target was stopped for that.
  std::chrono::nanoseconds reap_pause() const { return reap_pause_; }
  // What an operator should know: what could not be done, what was left in the target.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  ForkSnapshot(const ProcFs& proc, int process, const SyscallGadget& gadget, SnapshotChild child,
               CopyWatch& watch)
      : proc_(proc), process_(process), gadget_(gadget), child_(child), watch_(watch) {
    child_.bound_by(watch);
  }

  bool mark_first_to_go();
  bool mark_itself_first_to_go();
  // Waits twice for at most `at_most`: for its birth, and for the end of the call.
  void give_up_files(std::chrono::milliseconds at_most);
  void leave_places();
  void give_memory_back();
  void end_closing(TraceClock::time_point deadline);
  void note_closed(std::optional<long> closed);
  bool lets_fail(const SystemCall& call) const;
  bool protect(const Mapping& mapping, int access);
  void give_up_while_stopped(const std::vector<Mapping>& shared);
  bool has(const Mapping& mapping) const;

  ProcFs proc_;
  int process_;
  SyscallGadget gadget_;
  SnapshotChild child_;
  CopyWatch& watch_;
  SeccompFilters filters_;
  std::optional<SystemCall> rename_;  // if the filters allow it
  bool is_born_ = false;
  bool is_closing_ = false;    // its call has not ended
  bool is_giving_up_ = false;  // the same
  bool owns_files_ = false;    // its table is no longer the target's: it may open some
  bool has_left_ = false;      // leave_places()
  bool discarded_ = false;
  std::chrono::nanoseconds reap_pause_{0};
  GivenUpMappings given_up_;
  std::vector<Mapping> shielded_;
  std::vector<std::string> notes_;
};

}  // namespace heapsnap
