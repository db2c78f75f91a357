// The passes of a freeze in their order. They are one thing, for all of their length: each has to
// give back, when it fails, what those before it hold of the target.
#include "platform/linux/freeze/frozen_process.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "platform/linux/freeze/child_code.h"
#include "platform/linux/freeze/completed_memory.h"
#include "platform/linux/freeze/copied_page_map.h"
#include "platform/linux/freeze/copied_usage.h"
#include "platform/linux/freeze/copy_reaper.h"
#include "platform/linux/freeze/end_watch.h"
#include "platform/linux/freeze/freeze_notes.h"
#include "platform/linux/proc/ask_again.h"
#include "platform/linux/proc/page_map.h"
#include "platform/linux/proc/process_memory.h"
#include "platform/linux/proc/process_status.h"
#include "platform/linux/self/nap.h"
#include "platform/linux/self/task_priority.h"

namespace heapsnap {

namespace {

// A copy that takes this many times as long as it should is waiting for something other than the
// copying of page tables.
constexpr int kSlowestFork = 8;
constexpr std::chrono::milliseconds kLeftOverReapDeadline{500};
// For the copy, while the target runs: enough for ten thousand mappings.
constexpr std::chrono::milliseconds kGivingUp{250};
// For threads to leave the allocator while all others are stopped; then all run for a while.
constexpr std::chrono::milliseconds kLongestRunOut{20};
constexpr std::chrono::milliseconds kBetweenRunOuts{2};
// Mappings of a target that is stopped are listed anew, at some 1 µs each, if they are so few; of
// more, those count that it had while it ran.
constexpr size_t kMostListedAnew = 400;

// For so long a stopped target is read with real-time priority, which may delay others. Reading a
// target without memory that a fork omits takes less where that was preferred to a copy.
constexpr std::chrono::milliseconds kReadWithPriority{20};

// In so long a copy gets inaccessible memory wherever a fork omits some, or is of no use.
constexpr std::chrono::seconds kOccupying{1};

// A fork that omits memory and is no longer is made even where stopping is quicker, for the
// references: in a target that is stopped, they are looked for only if asked for.
constexpr std::chrono::milliseconds kShortPause{10};

uint64_t count_ns(std::chrono::nanoseconds duration) {
  return static_cast<uint64_t>(std::max<int64_t>(duration.count(), 0));
}

}  // namespace

FrozenProcess::FrozenProcess(int pid, const FreezeOptions& options) : busy_(pid) {
  if (options.end != nullptr) {
    look(pid, options);
    take_over(options);
    return;
  }
  std::optional<PriorityInheritance> lender;
  if (options.choice != FreezeChoice::kNone) {
    // A new thread may have to wait for a processor; later, what was examined would get old.
    tracer_ = std::make_unique<TracerThread>();
    reading_.emplace();
    lender.emplace();
  }
  ask_again(ProcFs(), pid, [&] {
    look(pid, options);
    plan(options);
  });
  began_ = std::chrono::steady_clock::now();
  if (!lender) return;
  PriorityInheritance& inheritance = *lender;
  alteration_.emplace();
  reading_->begin();
  try {
    tracer_->run([&] {
      stop_and_fork(options, inheritance);
      if (!gadget_ && pauses_longer_than_fork(options, inheritance)) {
        release_in_vain(inheritance);
        plan_fork(options);
        stop_and_fork(options, inheritance);
      }
      if (snapshot_ && finish_fork(options)) return;
      if (snapshot_) {
        drop_copy();
        view_.memory = std::make_unique<ProcessMemory>(view_.proc, target_tid_, way_);
        seize_threads();
        const InheritanceScope scope(inheritance);
        stop_threads(options, inheritance);
      }
      finish_stop(options, inheritance);
    });
    if (target_is_stopped()) {
      reading_->end_after(kReadWithPriority);
    } else {
      reading_.reset();
    }
  } catch (ProgramReplaced& replaced) {
    thaw();
    replaced.pause_ns = paused_ns();
    throw;
  } catch (...) {
    thaw();
    throw;
  }
}

void FrozenProcess::look(int pid, const FreezeOptions& options) {
  program_ = options.program ? options.program : ProgramIdentity::of_process(ProcFs(), pid);
  view_ = look_at_running(ProcFs(), pid);
  target_tid_ = view_.tid;
  for (const Thread& thread : view_.threads) outrank(thread.tid);
}

void FrozenProcess::plan(const FreezeOptions& options) {
  record_ = {};
  record_.threads = view_.threads.size();
  if (options.choice == FreezeChoice::kNone) {
    record_.method = FreezeMethod::kNone;
    record_.why =
        "asked for: it kept running while it was read, so the snapshot may be inconsistent";
    return;
  }
  record_.method = FreezeMethod::kStop;
  record_.why = options.why_stop;
  earlier_pause_ns_ = options.earlier_pause_ns;
  usage_before_ = view_.proc.smaps(target_tid_);
  // A read of /proc/PID/mem fails at a page that a userfaultfd(2) handler has to fill;
  // process_vm_readv(2) waits for it.
  if (std::any_of(usage_before_.flags.begin(), usage_before_.flags.end(),
                  [](const MappingFlags& flags) { return flags.on_demand; })) {
    way_ = ProcessMemory::Way::kProcMem;
    view_.memory = std::make_unique<ProcessMemory>(view_.proc, target_tid_, way_);
  }
  if (options.choice == FreezeChoice::kStop) return;
  estimate_ = estimate_freeze(view_.proc.read(target_tid_, "status"), usage_before_.flags.size());
  if (options.scans_all) estimate_ = estimate_.with_scan();
  estimate_ = estimate_.with_processors(quota_.processors());
  if (options.choice == FreezeChoice::kAuto) {
    record_.why = estimate_.text();
    if (!estimate_.prefers_fork()) return;
  }
  plan_fork(options);
}

void FrozenProcess::plan_fork(const FreezeOptions& options) {
  bool is_slower = false;
  const auto takes_longer = [&](uint64_t kept) {
    if (options.choice != FreezeChoice::kAuto) return false;
    const FreezeEstimate estimate = estimate_.with_kept(kept);
    record_.why.replace(0, estimate_.text().size(), estimate.text());
    is_slower = !estimate.prefers_fork() && estimate.fork > kShortPause;
    return is_slower;
  };
  gadget_ =
      find_syscall_gadget(view_.address_space, MappedFiles(view_.proc, target_tid_), *view_.memory);
  std::optional<std::string> refusal;
  if (!gadget_) {
    refusal = "its code contains no usable syscall instruction";
  } else if (!(refusal = omissions_.foresee(usage_before_, takes_longer))) {
    refusal = ForkSnapshot::refusal(view_.proc, view_.process.pid, target_tid_,
                                    busy_.processors().value_or(1));
  }
  if (refusal) {
    if (!is_slower) record_.why = "it cannot be forked: " + *refusal;
    gadget_.reset();
    return;
  }
  longest_copy_ =
      std::max<std::chrono::nanoseconds>(options.deadline, estimate_.fork * kSlowestFork);
  watch_ =
      std::make_unique<CopyWatch>(view_.process.pid, estimate_.private_bytes, options.deadline);
}

// For a program at its end. Its threads are traced by the caller's thread, so that one does all the
// work.
void FrozenProcess::take_over(const FreezeOptions& options) {
  began_ = std::chrono::steady_clock::now();
  record_.method = FreezeMethod::kStop;
  record_.why = options.end->how + ": it was stopped there";
  session_ = std::move(options.end->session);
  end_ = options.end;
  try {
    look_at_stopped();
    const RealtimePriority priority;  // not while the target is read
    PriorityInheritance inheritance;
    finish_stop(options, inheritance);
  } catch (...) {
    thaw();
    throw;
  }
}

void FrozenProcess::stop_and_fork(const FreezeOptions& options, PriorityInheritance& inheritance) {
  seize_threads();
  {
    const InheritanceScope scope(inheritance);
    stop_threads(options, inheritance);
    if (gadget_) try_to_fork(options, inheritance);
  }
  if (snapshot_) tracing_.reset();
}

// Without real-time priority, which would add to the pause uncounted (200 busy threads: 2 ms). From
// then on with it: a tracer that waits for a processor, also to release the target, prolongs the
// pause.
void FrozenProcess::seize_threads() {
  quota_.begin_pause();
  session_ = std::make_unique<PtraceSession>(view_.proc, view_.process.pid);
  session_->seize_all();
  tracing_.emplace();
}

void FrozenProcess::stop_threads(const FreezeOptions& options, PriorityInheritance& inheritance) {
  const auto deadline = TraceClock::now() + options.deadline;
  session_->stop_all(deadline, inheritance);
  if (gadget_) session_->deliver_signals(deadline, inheritance);
  look_at_stopped();
}

void FrozenProcess::release_in_vain(PriorityInheritance& inheritance) {
  inheritance.end();
  if (!session_->is_released()) session_->release();
  tracing_.reset();
  quota_.end_pause();
  earlier_pause_ns_ += count_ns(session_->pause());
}

// Lets threads run out of the allocator for as long as a fork would take, where that was not
// preferred. So the pause is at most twice that of the better way.
bool FrozenProcess::pauses_longer_than_fork(const FreezeOptions& options,
                                            PriorityInheritance& inheritance) {
  if (options.choice != FreezeChoice::kAuto || estimate_.prefers_fork()) return false;
  const MallocExit exit = run_out(options, inheritance, estimate_.fork);
  if (exit.still_inside.empty() || exit.steps == 0) return false;
  record_.why += ", but a thread stayed inside malloc or free for longer";
  return true;
}

MallocExit FrozenProcess::run_out(const FreezeOptions& options, PriorityInheritance& inheritance,
                                  std::chrono::nanoseconds patience) {
  const size_t inside = threads_inside_malloc(options.malloc_text, *session_, *view_.memory).size();
  record_.threads_in_malloc = std::max<uint64_t>(record_.threads_in_malloc, inside);
  if (inside == 0) return {};
  const InheritanceScope scope(inheritance);
  const auto now = TraceClock::now();
  MallocExit exit = run_out_in_target(options.malloc_text, *session_, *view_.memory, inheritance,
                                      now + patience, now + options.deadline);
  record_.steps += exit.steps;
  show_threads();
  return exit;
}

void FrozenProcess::look_at_stopped() {
  view_.process.taken_at_ns = realtime_ns();
  target_tid_ = session_->live_tid();
  // The thread that was used before may have exited.
  if (view_.tid != target_tid_) {
    view_.tid = target_tid_;
    view_.memory = std::make_unique<ProcessMemory>(view_.proc, target_tid_, way_);
  }
  if (has_been_replaced()) throw ProgramReplaced(view_.process.pid);
  view_.process.rss = view_.proc.resident_bytes(target_tid_);
  show_threads();
}

bool FrozenProcess::has_been_replaced() const {
  return !snapshot_ && ProgramIdentity(view_.proc, target_tid_) != *program_;
}

void FrozenProcess::try_to_fork(const FreezeOptions& options, PriorityInheritance& inheritance) {
  ForkSnapshot::Failure failure;
  bool is_lost = false;
  const auto meanwhile = [this, &is_lost](int child) {
    const auto useless =
        omissions_.keep(view_.proc, target_tid_, child, !inside_malloc_.empty(), *view_.memory);
    // The memory of a copy that is killed meanwhile looks as if the fork had left it out.
    is_lost = useless && view_.proc.sizes(child).mapped == 0;
    return is_lost ? lost_copy_text(watch_->reason()) : useless;
  };
  if (session_->was_stopped_before()) {
    failure.why_not = "it was stopped already (SIGSTOP)";
  } else if (session_->may_execute() || !gadget_->is_in(*view_.memory)) {
    failure.why_not = "it has just executed another program";
  } else {
    inside_malloc_ = threads_inside_malloc(options.malloc_text, *session_, *view_.memory);
    blocking_ = threads_that_block_signals(*session_, inside_malloc_);
    snapshot_ = ForkSnapshot::take(view_.proc, view_.process.pid, *session_, *gadget_, inheritance,
                                   *watch_, meanwhile, shared_to_give_up(options.malloc_text),
                                   TraceClock::now() + longest_copy_, failure);
  }
  if (snapshot_) return;
  record_.why = is_lost ? failure.why_not : "it cannot be forked: " + failure.why_not;
  record_.reap_pause_ns += count_ns(failure.reap_pause);
  add_notes(failure.notes);
  if (session_->is_released()) {
    release_in_vain(inheritance);
    seize_threads();
    stop_threads(options, inheritance);
  }
}

bool FrozenProcess::finish_fork(const FreezeOptions& options) {
  record_.method = FreezeMethod::kFork;
  end_session();
  std::optional<std::string> lost;
  try {
    if (snapshot_->settle()) {
      lost = look_at_copy(options);
    } else {
      lost = loss().value_or("it cannot execute its own code (madvise MADV_DONTFORK)");
    }
  } catch (const Error&) {
    lost = loss();
    if (!lost) throw;
  }
  if (!lost) return true;
  record_.method = FreezeMethod::kStop;
  record_.why = lost_copy_text(lost);
  earlier_pause_ns_ += record_.pause_ns;
  return false;
}

// Those that can be written to, which matter most. None if code other than the allocator's has to
// be stepped: it may read such memory.
std::vector<Mapping> FrozenProcess::shared_to_give_up(const MallocText& malloc_text) const {
  const auto is_elsewhere = [&malloc_text](const ThreadContext& context) {
    return std::none_of(malloc_text.begin(), malloc_text.end(), [&](const AddressRange& range) {
      return range.contains(Address(context.registers.rip));
    });
  };
  if (std::any_of(inside_malloc_.begin(), inside_malloc_.end(), is_elsewhere)) return {};
  if (usage_before_.mappings.size() <= kMostListedAnew) {
    return writable_to_give_up(view_.proc.maps(target_tid_), view_.threads);
  }
  return writable_to_give_up(usage_before_.mappings, view_.threads);
}

std::optional<std::string> FrozenProcess::loss() const {
  if (!snapshot_) return std::nullopt;
  if (auto reason = watch_->reason()) return reason;
  const auto task = view_.proc.try_stat(snapshot_->child().pid());
  if (task && !task->is_dead()) return std::nullopt;
  return kCopyKilled;
}

std::optional<std::string> FrozenProcess::look_at_copy(const FreezeOptions& options) {
  SnapshotChild& child = snapshot_->child();
  view_.tid = child.pid();
  auto memory =
      std::make_unique<ProcessMemory>(view_.proc, child.pid(), ProcessMemory::Way::kProcMem);
  if (const auto* const is_void = child.void_flag()) memory->gone_when(*is_void);
  view_.memory = std::move(memory);
  record_.threads_in_malloc = inside_malloc_.size();
  const size_t in_handlers =
      handlers_inside_malloc(options.malloc_text, blocking_, view_.address_space, *view_.memory);
  MallocExit exit;
  if (!inside_malloc_.empty()) {
    if (!snapshot_->shield_shared_memory()) {
      return "it could not be prevented from writing to memory that it shares with the target";
    }
    if (!snapshot_->occupy(omissions_.kept().ranges(), TraceClock::now() + kOccupying)) {
      return "a thread inside the allocator could map memory where a fork omits some (madvise "
             "MADV_DONTFORK)";
    }
    exit = step_out_in_child(options.malloc_text, child, *view_.memory, inside_malloc_);
    snapshot_->unshield_shared_memory();
    record_.steps = exit.steps;
    if (!exit.still_inside.empty() && !omissions_.kept().is_empty()) {
      return "a thread inside the allocator needs memory that a fork does not copy (madvise "
             "MADV_DONTFORK)";
    }
  }
  for (const ThreadContext& context : inside_malloc_) {
    for (Thread& thread : view_.threads) {
      if (thread.tid == context.tid) thread.registers = visible_registers(context.registers);
    }
  }
  // Read only now: the allocator may have moved the break on its way out.
  std::vector<Mapping> mappings = view_.proc.maps(child.pid());
  view_.address_space =
      AddressSpace(omissions_.kept().completed(snapshot_->given_up().completed(mappings)));
  std::erase_if(mappings, [this](const Mapping& mapping) {
    return !may_be_given_up(mapping, view_.threads);
  });
  snapshot_->give_up(mappings, TraceClock::now() + kGivingUp);
  view_.residency = std::make_unique<CopiedPageMap>(view_.proc, child.pid(), target_tid_,
                                                    view_.address_space, omissions_.kept());
  use_child(child);
  if (!omissions_.kept().is_empty()) {
    view_.memory = std::make_unique<CompletedMemory>(std::move(view_.memory), omissions_.kept());
  }
  if (!snapshot_->given_up().is_empty()) {
    view_.memory = std::make_unique<HalfGivenUpMemory>(
        std::move(view_.memory),
        std::make_unique<ProcessMemory>(view_.proc, target_tid_, ProcessMemory::Way::kProcMem),
        snapshot_->given_up());
  }
  note_unfinished(exit, in_handlers);
  return std::nullopt;
}

// From here on the child works for us, if no seccomp filter limits what it does.
void FrozenProcess::use_child(SnapshotChild& child) {
  const auto status = read_process_status(view_.proc, child.pid());
  if (!status || status->seccomp != SeccompMode::kNone) return;
  // Where the copy does not show all of the target's memory, code in it would see too little.
  if (!omissions_.kept().is_empty()) return;
  child.share_processor();
  view_.code_runner = std::make_unique<ChildCode>(child, *tracer_);
}

void FrozenProcess::finish_stop(const FreezeOptions& options, PriorityInheritance& inheritance) {
  const auto deadline = TraceClock::now() + options.deadline;
  // Nobody waits for a program at its end, which cannot be let go in between.
  MallocExit exit = run_out(options, inheritance, end_ ? options.deadline : kLongestRunOut);
  // What keeps a thread inside may be another one, which must run for it.
  while (!exit.still_inside.empty() && exit.steps != 0 && end_ == nullptr &&
         TraceClock::now() < deadline) {
    release_in_vain(inheritance);
    nap(kBetweenRunOuts);
    seize_threads();
    const InheritanceScope scope(inheritance);
    stop_threads(options, inheritance);
    exit = run_out(options, inheritance, kLongestRunOut);
  }
  blocking_ = threads_that_block_signals(*session_, {});
  note_unfinished(exit, handlers_inside_malloc(options.malloc_text, blocking_, view_.address_space,
                                               *view_.memory));
  if (!exit.still_inside.empty() && exit.steps != 0 && end_ == nullptr) {
    record_.notes.push_back(out_of_time_note(options.deadline));
  }
  view_.tid = target_tid_;
  view_.address_space = AddressSpace(view_.proc.maps(target_tid_));
  view_.memory = std::make_unique<ProcessMemory>(view_.proc, target_tid_, way_);
  view_.residency = std::make_unique<PageMap>(view_.proc, target_tid_);
  record_.syscalls_restarted = session_->syscalls_restarted();
}

void FrozenProcess::show_threads() {
  view_.threads = threads_of(view_.process.pid, session_->tracees(), view_.threads);
  record_.threads = view_.threads.size();
}

void FrozenProcess::note_unfinished(const MallocExit& exit, size_t in_handlers) {
  has_unfinished_calls_ = !exit.still_inside.empty() || in_handlers != 0;
  if (!exit.still_inside.empty()) {
    const AddressSpace space(view_.proc.maps(view_.tid));
    record_.notes.push_back(still_inside_note(exit.still_inside, space));
  }
  if (in_handlers != 0) record_.notes.push_back(handlers_note(in_handlers));
}

// Releases the target and fills in what is known only then.
void FrozenProcess::end_session() noexcept {
  if (!session_) return;
  if (!session_->is_released()) session_->release();
  tracing_.reset();
  quota_.end_pause();
  record_.pause_ns = count_ns(session_->pause());
  record_.syscalls_restarted = session_->syscalls_restarted();
  try {
    if (session_->stragglers() != 0) {
      record_.notes.push_back(stragglers_note(session_->stragglers()));
    }
    add_notes(sharer_notes(*session_));
  } catch (...) {
    // Out of memory: notes are lost.
  }
  if (end_ != nullptr) end_->session = std::move(session_);
  session_.reset();
}

void FrozenProcess::drop_copy() noexcept {
  if (!snapshot_) return;
  quota_.begin_pause();
  snapshot_->discard();
  quota_.end_pause();
  view_.code_runner.reset();
  view_.tid = target_tid_;
  record_.reap_pause_ns += count_ns(snapshot_->reap_pause());
  try {
    add_notes(snapshot_->notes());
  } catch (...) {
    // Out of memory: notes are lost.
  }
  snapshot_.reset();
}

void FrozenProcess::reap_left_over() {
  if (record_.method == FreezeMethod::kFork) return;
  CopyReaper reaper(view_.proc, view_.process.pid, std::nullopt);
  reaper.reap(nullptr, TraceClock::now() + kLeftOverReapDeadline);
  record_.reap_pause_ns += count_ns(reaper.pause());
  add_notes(reaper.notes());
  if (!reaper.remains().empty()) record_.notes.push_back(zombie_note(reaper.remains()));
}

void FrozenProcess::add_notes(const std::vector<std::string>& notes) {
  record_.notes.insert(record_.notes.end(), notes.begin(), notes.end());
}

void FrozenProcess::thaw() noexcept {
  if (end_ != nullptr) {
    end_session();
    end_ = nullptr;
  }
  if (!tracer_) return;
  try {
    tracer_->run([this] {
      const Repair repair;
      end_session();
      const RealtimePriority priority;
      drop_copy();
      reap_left_over();
      quota_.add_note(earlier_pause_ns_, record_);
      if (earlier_pause_ns_ != 0) record_.notes.push_back(earlier_pause_note(earlier_pause_ns_));
    });
  } catch (...) {
    // The end of the tracing thread detaches all threads.
  }
  reading_.reset();
  tracer_.reset();
  alteration_.reset();
  view_.tid = target_tid_;
}

std::vector<MappingUsage> FrozenProcess::mapping_usage() {
  const std::vector<Mapping>& mappings = view_.address_space.mappings();
  if (!snapshot_) {
    return ask_again(view_.proc, view_.process.pid, [&] {
      const int tid = view_.proc.live_tid(view_.process.pid).value_or(target_tid_);
      return usage_by_smaps(view_.proc, tid, mappings);
    });
  }
  return usage_of_copy(view_.proc, view_.tid, mappings, usage_before_, omissions_.kept());
}

}  // namespace heapsnap
