// The one FrozenProcess there is: a process looked at in one of the three ways, and everything that
// must be undone for it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/alteration.h"
#include "platform/linux/busy_clock.h"
#include "platform/linux/copy_watch.h"
#include "platform/linux/fork_snapshot.h"
#include "platform/linux/freeze_estimate.h"
#include "platform/linux/frozen_process.h"
#include "platform/linux/live_view.h"
#include "platform/linux/malloc_exit.h"
#include "platform/linux/missing_memory.h"
#include "platform/linux/process_memory.h"
#include "platform/linux/ptrace_session.h"
#include "platform/linux/tracer_thread.h"

namespace heapsnap {

class HeldProcess final : public FrozenProcess {
 public:
  // Freezes; throws as FrozenProcess::freeze() does, with the target let go.
  HeldProcess(int pid, const FreezeOptions& options);
  ~HeldProcess() override { thaw(); }

  const Process& process() const override { return view_.process; }
  const AddressSpace& address_space() const override { return view_.address_space; }
  const std::vector<Thread>& threads() const override { return view_.threads; }
  MemoryReader& memory() override { return *view_.memory; }
  PageResidency& residency() override { return *view_.residency; }
  HeapPasses* passes() override { return view_.passes.get(); }
  std::optional<MappedFile> open_file(const Mapping& mapping) override {
    return view_.open_file(mapping);
  }

  bool target_is_stopped() const override;
  void thaw() noexcept override;
  std::chrono::steady_clock::time_point began() const override { return began_; }
  const FreezeRecord& record() const override { return record_; }
  std::vector<MappingUsage> mapping_usage() override;
  std::optional<std::string> loss() const override;

 private:
  // The passes of a freeze, in the order in which they are made. All but the first run on the
  // tracing thread.
  void plan(const FreezeOptions& options);
  void take_over(const FreezeOptions& options);
  void seize_threads();
  void stop_threads(const FreezeOptions& options, PriorityLoan& loan);
  void try_to_fork(const FreezeOptions& options, PriorityLoan& loan);
  // False when the copy was lost before it could be read, with the reason in the record.
  bool finish_fork(const FreezeOptions& options);
  // Gives why the copy is of no use, or nothing.
  std::optional<std::string> look_at_copy(const FreezeOptions& options);
  void drop_copy() noexcept;
  // Zombies that an earlier heapsnap left, where no copy was reaped that they could have gone with.
  void reap_left_over();
  void lead_child(SnapshotChild& child);
  void finish_stop(const FreezeOptions& options, PriorityLoan& loan);

  void look_at_standing();
  void show_threads();
  void note_stood_before(uint64_t nanoseconds);
  void note_still_inside(const MallocExit& exit);
  void note_handlers(const FreezeOptions& options);
  // Why a fork would not show what is to be read, by what smaps said.
  std::optional<std::string> flags_against_fork(const FreezeOptions& options,
                                                const FreezeEstimate& estimate);
  // Keeps what `child` does not show, while both stand. Gives why that cannot be done.
  std::optional<std::string> keep_missing(int child);
  void end_session() noexcept;

  BusyClock busy_;  // from the first look on
  std::optional<Alteration> alteration_;
  LiveView view_;
  ProgramEnd* end_ = nullptr;  // until it is let go
  int target_tid_ = 0;         // a live thread of the target itself; view_.tid may be the child
  MappingsWithUsage usage_before_;                         // of the running target
  ProcessMemory::Way way_ = ProcessMemory::Way::kVmReadv;  // to read the target itself
  std::vector<AddressRange> wiped_;                        // MADV_WIPEONFORK, by the same
  MissingMemory missing_;                                  // from the copy
  std::chrono::steady_clock::time_point began_;
  FreezeRecord record_;
  std::optional<SyscallGadget> gadget_;      // where a fork is to be tried
  std::chrono::nanoseconds longest_copy_{};  // the same
  std::vector<ThreadContext> inside_malloc_;
  std::vector<BlockingThread> blocking_;
  // What traces is made, used and destroyed on the tracing thread.
  std::unique_ptr<TracerThread> tracer_;
  std::unique_ptr<PtraceSession> session_;
  std::unique_ptr<CopyWatch> watch_;  // where a fork is to be tried
  std::unique_ptr<ForkSnapshot> snapshot_;
};

}  // namespace heapsnap
