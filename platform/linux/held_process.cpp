#include "platform/linux/held_process.h"

#include <time.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "platform/linux/attach_obstacles.h"
#include "platform/linux/child_passes.h"
#include "platform/linux/copied_page_map.h"
#include "platform/linux/copied_usage.h"
#include "platform/linux/freeze_estimate.h"
#include "platform/linux/mapping_query.h"
#include "platform/linux/memory_room.h"
#include "platform/linux/page_map.h"
#include "platform/linux/process_memory.h"
#include "platform/linux/process_status.h"
#include "platform/linux/realtime_priority.h"
#include "platform/linux/spliced_memory.h"

namespace heapsnap {

namespace {

// A copy that takes longer than this waits for something else than the copying of page tables.
constexpr std::chrono::seconds kLongestCopy{10};
constexpr size_t kMostMissingLookedUp = 256;

int64_t realtime_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

uint64_t count_ns(std::chrono::nanoseconds duration) {
  return static_cast<uint64_t>(std::max<int64_t>(duration.count(), 0));
}

Registers visible_registers(const user_regs_struct& registers) {
  return {Address(registers.rip), Address(registers.rsp), Address(registers.fs_base)};
}

}  // namespace

HeldProcess::HeldProcess(int pid, const FreezeOptions& options)
    : view_(look_at_running(ProcFs(), pid)), target_tid_(view_.tid) {
  plan(options);
  began_ = std::chrono::steady_clock::now();
  if (options.choice == FreezeChoice::kNone) return;
  tracer_ = std::make_unique<TracerThread>();
  try {
    tracer_->run([&] {
      PriorityLoan loan;
      seize_threads();
      {
        const RealtimePriority priority;
        stop_threads(options, loan);
        if (gadget_) try_to_fork(options, loan);
      }
      loan.take_back();
      snapshot_ ? finish_fork(options) : finish_stop(options, loan);
    });
  } catch (const TraceRefused& refusal) {
    thaw();
    throw explain_attach_refusal(view_.process.pid, refusal.error_number());
  } catch (...) {
    thaw();
    throw;
  }
}

void HeldProcess::plan(const FreezeOptions& options) {
  record_.threads = view_.threads.size();
  if (options.choice == FreezeChoice::kNone) {
    record_.method = FreezeMethod::kNone;
    record_.why = "asked for: it ran on while it was read, so what was read may not fit together";
    return;
  }
  record_.method = FreezeMethod::kStop;
  record_.why = "asked for";
  if (options.choice == FreezeChoice::kStop) return;
  if (options.choice == FreezeChoice::kAuto) {
    const FreezeEstimate estimate = estimate_freeze(view_.proc.read(target_tid_, "status"));
    record_.why = estimate.text();
    if (!estimate.prefers_fork()) return;
  }
  const auto refusal = ForkSnapshot::refusal(view_.proc, view_.process.pid, target_tid_);
  if (!refusal) {
    gadget_ = find_syscall_gadget(view_.address_space, MappedFiles(view_.proc, target_tid_),
                                  *view_.memory);
  }
  if (!gadget_) {
    record_.why = "it cannot be forked: " +
                  refusal.value_or("none of its code makes a system call and returns");
    return;
  }
  usage_before_ = view_.proc.smaps(target_tid_);
}

// Without real-time priority: on the only processor that the target has, that would be a part of
// the pause that nobody counts (200 busy threads: 2 ms).
void HeldProcess::seize_threads() {
  session_ = std::make_unique<PtraceSession>(view_.proc, view_.process.pid);
  session_->seize_all();
}

void HeldProcess::stop_threads(const FreezeOptions& options, PriorityLoan& loan) {
  session_->stop_all(TraceClock::now() + options.deadline, loan);
  view_.process.taken_at_ns = realtime_ns();
  target_tid_ = session_->live_tid();
  view_.process.rss = view_.proc.resident_bytes(target_tid_);
  show_threads();
}

void HeldProcess::try_to_fork(const FreezeOptions& options, PriorityLoan& loan) {
  std::string why_not;
  if (session_->was_stopped_before()) {
    why_not = "it was stopped already (SIGSTOP)";
  } else if (!gadget_->is_in(*view_.memory)) {
    why_not = "it executed another program meanwhile";
  } else {
    inside_malloc_ = threads_inside_malloc(options.malloc_text, *session_, *view_.memory);
    snapshot_ = ForkSnapshot::take(view_.proc, view_.process.pid, *session_, *gadget_, loan,
                                   TraceClock::now() + kLongestCopy, why_not);
  }
  if (snapshot_) return;
  record_.why = "it cannot be forked: " + why_not;
  if (session_->is_released()) {
    record_.notes.push_back("it stood still for " +
                            std::to_string(count_ns(session_->pause()) / 1'000'000) +
                            " ms before the copy was given up");
    seize_threads();
    stop_threads(options, loan);
  }
}

void HeldProcess::finish_fork(const FreezeOptions& options) {
  record_.method = FreezeMethod::kFork;
  end_session();
  SnapshotChild& child = snapshot_->child();
  if (!snapshot_->settle()) {
    throw Error(ErrorKind::kNoProcess,
                "the copy of process " + std::to_string(view_.process.pid) + " is gone",
                "it was killed, or memory ran out",
                "try again, or read the target while it stands: --freeze stop");
  }
  view_.tid = child.pid();
  view_.memory =
      std::make_unique<ProcessMemory>(view_.proc, child.pid(), ProcessMemory::Way::kProcMem);
  record_.threads_in_malloc = inside_malloc_.size();
  if (!inside_malloc_.empty()) {
    const MallocExit exit =
        step_out_in_child(options.malloc_text, child, *view_.memory, inside_malloc_);
    record_.steps = exit.steps;
    note_still_inside(exit);
  }
  for (const ThreadContext& context : inside_malloc_) {
    for (Thread& thread : view_.threads) {
      if (thread.tid == context.tid) thread.registers = visible_registers(context.registers);
    }
  }
  // Read only now: the allocator may have moved the break on its way out.
  const AddressSpace before =
      std::exchange(view_.address_space, AddressSpace(view_.proc.maps(child.pid())));
  note_missing_from_copy(before);
  view_.residency =
      std::make_unique<CopiedPageMap>(view_.proc, child.pid(), target_tid_, view_.address_space);
  lead_child(child);
}

// From here on the child works for us, where no seccomp filter judges what it does.
void HeldProcess::lead_child(SnapshotChild& child) {
  const auto status =
      parse_process_status(view_.proc.try_read(child.pid(), "status").value_or(std::string()));
  if (!status || status->seccomp != SeccompMode::kNone) return;
  child.share_processor();
  const auto on_tracer = [this](const std::function<void()>& work) { tracer_->run(work); };
  if (snapshot_->owns_files()) {
    view_.memory = std::make_unique<SplicedMemory>(view_.proc, child, on_tracer);
  }
  auto passes = std::make_unique<ChildPasses>(child, on_tracer);
  if (passes->is_usable()) view_.passes = std::move(passes);
}

void HeldProcess::finish_stop(const FreezeOptions& options, PriorityLoan& loan) {
  record_.threads_in_malloc =
      threads_inside_malloc(options.malloc_text, *session_, *view_.memory).size();
  if (record_.threads_in_malloc != 0) {
    const RealtimePriority priority;
    const MallocExit exit = run_out_in_target(options.malloc_text, *session_, *view_.memory, loan,
                                              TraceClock::now() + options.deadline);
    record_.steps = exit.steps;
    note_still_inside(exit);
    show_threads();
  }
  view_.tid = target_tid_;
  view_.address_space = AddressSpace(view_.proc.maps(target_tid_));
  view_.memory =
      std::make_unique<ProcessMemory>(view_.proc, target_tid_, ProcessMemory::Way::kVmReadv);
  view_.residency = std::make_unique<PageMap>(view_.proc, target_tid_);
  record_.syscalls_restarted = session_->syscalls_restarted();
}

void HeldProcess::show_threads() {
  std::map<int, std::string> names;
  for (Thread& thread : view_.threads) names[thread.tid] = std::move(thread.name);
  view_.threads.clear();
  for (const Tracee& tracee : session_->tracees()) {
    if (tracee.process() != view_.process.pid || tracee.is_gone()) continue;
    Thread thread{tracee.tid(), names[tracee.tid()], std::nullopt};
    if (tracee.is_stopped()) thread.registers = visible_registers(tracee.registers());
    view_.threads.push_back(std::move(thread));
  }
  record_.threads = view_.threads.size();
}

void HeldProcess::note_still_inside(const MallocExit& exit) {
  if (exit.still_inside == 0) return;
  record_.notes.push_back(std::to_string(exit.still_inside) +
                          " threads could not be got out of the allocator: its data may be half "
                          "changed where they are");
}

void HeldProcess::note_missing_from_copy(const AddressSpace& before) {
  uint64_t missing = 0;
  size_t looked_up = 0;
  for (const Mapping& mapping : before.mappings()) {
    if (!mapping.is_private_writable() || looked_up == kMostMissingLookedUp) continue;
    if (view_.address_space.find(mapping.range.begin) != nullptr) continue;
    ++looked_up;
    const auto now = query_mapping(view_.proc, target_tid_, mapping.range.begin);
    if (now && now->range == mapping.range) missing += mapping.range.size();
  }
  if (missing == 0) return;
  record_.notes.push_back(bytes_text(missing) +
                          " of private memory are not in the copy (madvise MADV_DONTFORK)");
}

// Lets the target go and fills in what is known only then.
void HeldProcess::end_session() noexcept {
  if (!session_) return;
  if (!session_->is_released()) session_->release();
  record_.pause_ns = count_ns(session_->pause());
  record_.syscalls_restarted = session_->syscalls_restarted();
  try {
    if (session_->stragglers() != 0) {
      record_.notes.push_back(std::to_string(session_->stragglers()) +
                              " threads slept uninterruptibly in the kernel: none of their code "
                              "ran, but their registers are not known");
    }
    for (const int child : session_->vfork_children()) {
      record_.notes.push_back("process " + std::to_string(child) +
                              " runs in the same memory (vfork) and was stopped too");
    }
    // Threads that cannot be let go yet are looked after until they can.
    if (session_->collect_stragglers()) {
      tracer_->keep_calling([session = std::shared_ptr<PtraceSession>(std::move(session_))] {
        return session->collect_stragglers();
      });
    }
  } catch (...) {
    // Out of memory: the end of the tracing thread does the same.
  }
  session_.reset();
}

bool HeldProcess::target_is_stopped() const {
  return session_ != nullptr;
}

void HeldProcess::thaw() noexcept {
  if (!tracer_) return;
  try {
    tracer_->run([this] {
      const RealtimePriority priority;
      end_session();
      if (!snapshot_) return;
      snapshot_->discard();
      record_.reap_pause_ns = count_ns(snapshot_->reap_pause());
      record_.notes.insert(record_.notes.end(), snapshot_->notes().begin(),
                           snapshot_->notes().end());
      snapshot_.reset();
    });
  } catch (...) {
    // The end of the tracing thread lets everyone go.
  }
  tracer_.reset();
  view_.tid = target_tid_;
}

std::vector<MappingUsage> HeldProcess::mapping_usage() {
  const std::vector<Mapping>& mappings = view_.address_space.mappings();
  if (!snapshot_) return usage_by_smaps(view_.proc, target_tid_, mappings);
  std::vector<MappingUsage> usage = attribute_usage(usage_before_, mappings);
  PageMap pages(view_.proc, view_.tid);
  std::vector<MappingUsage> by_smaps;  // before 6.7; it takes several times as long
  for (size_t i = 0; i < mappings.size(); ++i) {
    // [vdso] and the like hold pages of the kernel.
    const bool is_anonymous = mappings[i].is_anonymous() && !mappings[i].path.starts_with("[v");
    auto own = pages.count(mappings[i].range,
                           is_anonymous ? PageMap::Pages::kAnonymous : PageMap::Pages::kAny);
    if (!own) {
      if (by_smaps.empty()) by_smaps = usage_by_smaps(view_.proc, view_.tid, mappings);
      own = {by_smaps[i].anonymous, by_smaps[i].anon_huge, by_smaps[i].swap};
    }
    usage[i] = usage_at_freeze(mappings[i], *own, usage[i]);
  }
  return usage;
}

}  // namespace heapsnap
