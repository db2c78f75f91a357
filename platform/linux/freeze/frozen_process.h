// A live process, stopped just long enough to be read, and released unharmed.
//
//   fork:  stop all threads -> clone a copy-on-write child -> resume -> read it -> kill it, reap it
//   stop:  stop all threads -> read -> resume
//   none:  read while it runs
//
// Whatever happens to heapsnap meanwhile (error, signal, SIGKILL at any instruction), the target
// continues as if nothing had happened. docs/freezing.md explains how.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/alteration.h"
#include "platform/linux/freeze/copy_watch.h"
#include "platform/linux/freeze/fork_omissions.h"
#include "platform/linux/freeze/fork_snapshot.h"
#include "platform/linux/freeze/freeze_estimate.h"
#include "platform/linux/freeze/freeze_options.h"
#include "platform/linux/freeze/live_view.h"
#include "platform/linux/freeze/malloc_exit.h"
#include "platform/linux/freeze/own_quota.h"
#include "platform/linux/proc/busy_clock.h"
#include "platform/linux/proc/process_memory.h"
#include "platform/linux/self/brief_priority.h"
#include "platform/linux/self/realtime_priority.h"
#include "platform/linux/trace/ptrace_session.h"
#include "platform/linux/trace/tracer_thread.h"

namespace heapsnap {

class FrozenProcess final : public Target {
 public:
  // Freezes process `pid` (any of its tids will do). Throws TargetRefusal, ProgramReplaced,
  // Error{kNoProcess, kNotPermitted, kUnsupported} with the target released.
  FrozenProcess(int pid, const FreezeOptions& options);
  ~FrozenProcess() override { thaw(); }

  const Process& process() const override { return view_.process; }
  const AddressSpace& address_space() const override { return view_.address_space; }
  const std::vector<Thread>& threads() const override { return view_.threads; }
  MemoryReader& memory() override { return *view_.memory; }
  PageResidency& residency() override { return *view_.residency; }
  CodeRunner* code_runner() override { return view_.code_runner.get(); }
  std::optional<MappedFile> open_file(const Mapping& mapping) override {
    return view_.open_file(mapping);
  }

  // Whether the target itself is stopped until thaw(): do nothing slow meanwhile.
  bool target_is_stopped() const { return session_ != nullptr; }
  // Whether what was read may be of different programs: the target was not copied and has executed
  // another one. Ask for it before thaw(), after all reads.
  bool has_been_replaced() const;
  // Releases the target; kills and reaps a forked child. memory() may not be used afterwards. The
  // destructor calls this if need be.
  void thaw() noexcept;
  // When the freeze began, after the running target had been examined.
  std::chrono::steady_clock::time_point began() const { return began_; }
  // What was done. Complete after thaw().
  const FreezeRecord& record() const { return record_; }
  // For how long the target was stopped in all, in vain too.
  uint64_t paused_ns() const { return earlier_pause_ns_ + record_.pause_ns; }
  // Resident bytes per mapping of address_space(), same order: private memory as it was at the
  // freeze, files and shared memory as they were just before (fork) or are now. Slow (walks page
  // tables): never while target_is_stopped(); needs the child, so call it before thaw() under fork.
  std::vector<MappingUsage> mapping_usage();
  // From now on the forked child is given up, too, when the target has written to more than so many
  // bytes since the fork, and loss() says so. Without a child nothing happens.
  void set_memory_budget(uint64_t bytes) {
    if (snapshot_) watch_->set_budget(bytes);
  }
  // Why the forked child, from which memory is read, is gone: what was read from it since then is
  // void. Ask for it before thaw(), after all reads. nullopt while all is well.
  std::optional<std::string> loss() const;
  // Whether a thread stayed inside the allocator, itself or below a signal handler, so that its
  // heap may be half changed. The record's notes say which.
  bool has_unfinished_calls() const { return has_unfinished_calls_; }

 private:
  // The passes of a freeze, in order. Those from stop_and_fork() on run on the tracing thread;
  // plan_fork() does as often as it is repeated.
  void look(int pid, const FreezeOptions& options);
  void plan(const FreezeOptions& options);
  void take_over(const FreezeOptions& options);
  void plan_fork(const FreezeOptions& options);
  void stop_and_fork(const FreezeOptions& options, PriorityInheritance& inheritance);
  void seize_threads();
  void stop_threads(const FreezeOptions& options, PriorityInheritance& inheritance);
  void release_in_vain(PriorityInheritance& inheritance);
  bool pauses_longer_than_fork(const FreezeOptions& options, PriorityInheritance& inheritance);
  MallocExit run_out(const FreezeOptions& options, PriorityInheritance& inheritance,
                     std::chrono::nanoseconds patience);
  void try_to_fork(const FreezeOptions& options, PriorityInheritance& inheritance);
  // Returns false if the copy was lost before it could be read, with the reason in the record.
  bool finish_fork(const FreezeOptions& options);
  // Returns why the copy is unusable, or nullopt.
  std::optional<std::string> look_at_copy(const FreezeOptions& options);
  void drop_copy() noexcept;
  // Reaps zombies that an earlier heapsnap left, if they did not go along with a copy.
  void reap_left_over();
  void use_child(SnapshotChild& child);
  void finish_stop(const FreezeOptions& options, PriorityInheritance& inheritance);

  void look_at_stopped();
  void show_threads();
  // `in_handlers`: threads in a signal handler that interrupted the allocator.
  void note_unfinished(const MallocExit& exit, size_t in_handlers);
  void add_notes(const std::vector<std::string>& notes);
  // What the copy is to give up first.
  std::vector<Mapping> shared_to_give_up(const MallocText& malloc_text) const;
  void end_session() noexcept;

  BusyClock busy_;  // from the first look on
  std::optional<Alteration> alteration_;
  LiveView view_;
  std::optional<ProgramIdentity> program_;  // that was looked at first
  ProgramEnd* end_ = nullptr;               // until it is released
  int target_tid_ = 0;  // a live thread of the target itself; view_.tid may be the child
  MappingsWithUsage usage_before_;                         // of the running target
  ProcessMemory::Way way_ = ProcessMemory::Way::kVmReadv;  // to read the target itself
  ForkOmissions omissions_;
  std::chrono::steady_clock::time_point began_;
  FreezeRecord record_;
  OwnQuota quota_;
  std::optional<BriefPriority> reading_;  // while the target is stopped
  FreezeEstimate estimate_;               // unless a stop was asked for
  uint64_t earlier_pause_ns_ = 0;         // in vain
  bool has_unfinished_calls_ = false;
  std::optional<SyscallGadget> gadget_;      // if a fork is to be tried
  std::chrono::nanoseconds longest_copy_{};  // the same
  std::vector<ThreadContext> inside_malloc_;
  std::vector<BlockingThread> blocking_;
  // What traces is created, used and destroyed on the tracing thread.
  std::unique_ptr<TracerThread> tracer_;
  std::unique_ptr<PtraceSession> session_;
  std::optional<RealtimePriority> tracing_;  // of that thread, while the target is stopped
  std::unique_ptr<CopyWatch> watch_;         // if a fork is to be tried
  std::unique_ptr<ForkSnapshot> snapshot_;
};

}  // namespace heapsnap
