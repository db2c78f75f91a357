#include "platform/linux/freeze/fork_snapshot.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/alteration.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "platform/linux/freeze/copy_reaper.h"
#include "platform/linux/freeze/freeze_notes.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/memory_room.h"
#include "platform/linux/proc/pid_namespaces.h"
#include "platform/linux/proc/process_status.h"
#include "platform/linux/proc/seccomp_filter.h"
#include "platform/linux/remote_call/caller_choice.h"
#include "platform/linux/remote_call/stopped_caller.h"
#include "platform/linux/self/task_priority.h"
#include "target/address_space.h"

namespace heapsnap {

namespace {

constexpr long kCloseRange = 436;           // close_range(2), 5.9
constexpr uint64_t kCloseRangeUnshare = 2;  // CLOSE_RANGE_UNSHARE
constexpr uint64_t kAllDescriptors = 0xffffffff;
constexpr uint64_t kSetName = 15;  // PR_SET_NAME
// What may be added to the pause; closing takes the child some 50 µs, unless some of its files are
// on a server that has to be asked.
constexpr std::chrono::milliseconds kClosingWhileStopped{5};
// The same; each mapping takes some 15 µs.
constexpr std::chrono::milliseconds kGivingUpWhileStopped{2};
constexpr std::chrono::seconds kBirthDeadline{5};
constexpr std::string_view kFirstToGo = "1000";  // OOM_SCORE_ADJ_MAX
constexpr std::chrono::seconds kReapDeadline{2};

// No exit signal; the table of open files is shared instead of copied, which costs nothing and
// takes no reference to any of them.
constexpr uint64_t kSnapshotFlags = CLONE_FILES;

constexpr SystemCall kGiveUpFiles{kCloseRange, {0, kAllDescriptors, kCloseRangeUnshare, 0, 0, 0}};

// Not tried under a filter of our own, which might end us for the call.
bool kernel_has_close_range() {
  if (seccomp_mode(::gettid()) == SeccompMode::kNone) {
    return ::syscall(kCloseRange, kAllDescriptors, kAllDescriptors, 0) == 0;
  }
  utsname kernel{};
  int major = 0;
  int minor = 0;
  if (::uname(&kernel) != 0) return false;
  if (std::sscanf(kernel.release, "%d.%d", &major, &minor) != 2) return false;
  return std::pair(major, minor) >= std::pair(5, 9);
}

// Everything that the caller and the child will be made to do, now and at the end. A child that
// could not give up the target's file table would share it for as long as it lives: if the target
// then executed another program or called unshare(CLONE_FILES), the kernel would make it a table
// of its own, and its record locks (fcntl(2)), which belong to the table, would be lost.
CallerTask caller_task(std::vector<SystemCall> chain, const SyscallGadget& gadget) {
  CallerTask task;
  task.chain_length = chain.size() + 1;  // and a prctl, if the filters allow it
  task.gadget = gadget.syscall_ret;
  task.calls = std::move(chain);
  task.calls.push_back({SYS_clone, {kSnapshotFlags, 0, 0, 0, 0, 0}});
  task.calls.push_back(kGiveUpFiles);
  task.calls.push_back({SYS_rt_sigreturn, {}});
  task.calls.push_back(reap_call(1));
  return task;
}

constexpr const char* kChildrenElsewhere =
    "children of the target are created in another PID namespace";

SystemCall map_inaccessible(const AddressRange& range, uint64_t flags) {
  return {SYS_mmap,
          {range.begin.value(), range.size(), PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, ~uint64_t{0}, 0}};
}

}  // namespace

std::optional<std::string> ForkSnapshot::refusal(const ProcFs& proc, int process, int tid,
                                                 double writers) {
  const auto status = parse_process_status(proc.read(tid, "status"));
  if (status && status->shadow_stack) {
    return "the target has a shadow stack, which an injected call would violate";
  }
  if (!kernel_has_close_range()) {
    return "the kernel has no close_range(2) (Linux before 5.9), by which the copy gives up the "
           "target's files";
  }
  if (creates_children_elsewhere(proc, tid)) return kChildrenElsewhere;
  if (const auto no_room = find_copy_refusal(process, writers)) {
    return no_room->what + ": " + no_room->why;
  }
  return std::nullopt;
}

std::unique_ptr<ForkSnapshot> ForkSnapshot::take(
    const ProcFs& proc, int process, PtraceSession& session, const SyscallGadget& gadget,
    PriorityInheritance& inheritance, CopyWatch& watch, const Meanwhile& meanwhile,
    const std::vector<Mapping>& shared, TraceClock::time_point deadline, Failure& failure) {
  std::vector<SystemCall> chain{{SYS_exit_group, {0, 0, 0, 0, 0, 0}}};
  const CallerTask task = caller_task(chain, gadget);
  const auto chosen = choose_caller(proc, process, session.tracees(), task, failure.why_not);
  if (!chosen) return nullptr;
  Tracee& caller = session.tracees()[chosen->index];
  // Each thread has its own namespace for children, and may have got another one a moment ago.
  if (creates_children_elsewhere(proc, caller.tid())) {
    failure.why_not = kChildrenElsewhere;
    return nullptr;
  }
  inheritance.raise(caller.tid());
  StoppedCaller stopped_caller(caller, gadget, chosen->frame_top);
  // If it is released by accident, it takes its name before it exits, to mark its zombie.
  const SystemCall rename{SYS_prctl, {kSetName, stopped_caller.note_address(), 0, 0, 0, 0}};
  const bool may_rename =
      read_seccomp_filters(caller.tid()).lets_fail(as_filter_sees(rename, gadget.syscall_ret));
  if (may_rename) chain.insert(chain.begin(), rename);
  switch (stopped_caller.clone(kSnapshotFlags, chain, deadline)) {
    case StoppedCaller::Outcome::kCloned: break;
    case StoppedCaller::Outcome::kRefused:
      failure.why_not = "the kernel refused the clone";
      if (stopped_caller.refusal() != 0) {
        failure.why_not += ": " + errno_text(stopped_caller.refusal());
      }
      return nullptr;
    case StoppedCaller::Outcome::kGone:
      failure.why_not = "the calling thread ended";
      return nullptr;
    case StoppedCaller::Outcome::kStuck: break;
  }
  const bool is_complete = stopped_caller.clone_pid() != 0;
  // The caller returns while it has the processor to itself. But a clone that got stuck waits for
  // something that only the target itself can do, such as reading from a userfaultfd(2).
  if (!is_complete) session.release_others(caller);
  const bool caught = stopped_caller.give_back();
  std::unique_ptr<ForkSnapshot> snapshot;
  std::optional<std::string> useless;
  if (!caught) failure.notes.push_back(way_back_note(caller.tid()));
  if (!is_complete) useless = "the copy was not made while the target was stopped";
  if (stopped_caller.clone_pid() != 0) {
    snapshot.reset(new ForkSnapshot(
        proc, process, gadget,
        SnapshotChild(stopped_caller.clone_pid(), gadget, stopped_caller.clone_stack()), watch));
    // Before any thread runs on and writes: when memory runs out, the OOM killer must not pick the
    // target, which is as large as its copy. If it kills whole groups, a copy must not bring that
    // upon the group, so the copy is picked last, and had to find room for all of its memory.
    if (may_rename) snapshot->rename_ = rename;
    const bool dies_alone = !watch.group_dies_together();
    bool is_marked = !dies_alone || snapshot->mark_first_to_go();
    if (is_complete) {
      watch.begin(stopped_caller.clone_pid(), dies_alone);
      snapshot->give_up_files(kClosingWhileStopped);
      snapshot->leave_places();
      is_marked = is_marked || snapshot->mark_itself_first_to_go();
      useless = meanwhile(stopped_caller.clone_pid());
      if (!is_marked) useless = "it could not be made the first victim of the OOM killer";
      if (!useless) snapshot->give_up_while_stopped(shared);
    }
  }
  inheritance.end();  // while the caller is stopped: it would run on at our priority
  session.release();
  if (snapshot) snapshot->notes_.swap(failure.notes);
  if (!useless) return snapshot;
  failure.why_not = *std::move(useless);
  if (snapshot) {
    snapshot->discard();
    failure.reap_pause = snapshot->reap_pause();
    failure.notes = snapshot->notes();
  }
  return nullptr;
}

bool ForkSnapshot::mark_first_to_go() {
  const UniqueFd adjust(
      ::open(proc_.path(child_.pid(), "oom_score_adj").c_str(), O_WRONLY | O_CLOEXEC));
  return adjust && ::write(adjust.get(), kFirstToGo.data(), kFirstToGo.size()) ==
                       static_cast<ssize_t>(kFirstToGo.size());
}

// For a heapsnap that may trace the child but does not own its files in /proc.
bool ForkSnapshot::mark_itself_first_to_go() {
  constexpr std::string_view kFile("/proc/self/oom_score_adj", sizeof "/proc/self/oom_score_adj");
  if (!is_born_ || is_closing_ || !owns_files_) return false;
  SystemCall open{SYS_open, {0, O_WRONLY | O_CLOEXEC, 0, 0, 0, 0}};
  SystemCall write{SYS_write, {0, 0, kFirstToGo.size(), 0, 0, 0}};
  if (!lets_fail(open) || !lets_fail(write)) return false;
  open.arguments[0] = child_.put_bytes(kFile.data(), kFile.size());
  const auto file = open.arguments[0] != 0 ? child_.call(open) : std::nullopt;
  if (!file || *file < 0) return false;
  write.arguments[0] = static_cast<uint64_t>(*file);
  write.arguments[1] = child_.put_bytes(kFirstToGo.data(), kFirstToGo.size());
  return write.arguments[1] != 0 && child_.call(write) == static_cast<long>(kFirstToGo.size());
}

// While the target is stopped, if that is quick: close_range(2) first takes references to some of
// the files that it then closes. A file that the target closed at that moment would stay in its
// epoll(7) sets for as long, and be reported there. But closing a file can mean writing to a
// server, which may be the target itself.
void ForkSnapshot::give_up_files(std::chrono::milliseconds at_most) {
  make_realtime(child_.pid());  // it has yet to reach its first stop
  is_born_ = child_.await_birth(TraceClock::now() + at_most);
  if (!is_born_) return;
  filters_ = read_seccomp_filters(child_.pid());
  // Only now is it made to die with us: without that name nothing would recognize its zombie.
  if (rename_) child_.call(*rename_);
  is_born_ = child_.bind_to_us();
  if (!is_born_) return;
  is_closing_ = lets_fail(kGiveUpFiles) && child_.begin_call(kGiveUpFiles);
  // A new deadline: on a busy machine the child's creation may have used most of the first.
  if (is_closing_) end_closing(TraceClock::now() + at_most);
}

void ForkSnapshot::end_closing(TraceClock::time_point deadline) {
  note_closed(child_.end_call(deadline));
}

void ForkSnapshot::note_closed(std::optional<long> closed) {
  is_closing_ = !closed && child_.is_alive() && !child_.is_crippled();
  owns_files_ = closed == 0;
}

// If the target left its process group, setsid(2) would fail as long as the copy is in it; if it
// left its directory, so would umount(2). Its root and its control group the copy cannot leave.
void ForkSnapshot::leave_places() {
  constexpr std::string_view kRoot("/", sizeof "/");
  const SystemCall leave_group{SYS_setpgid, {0, 0, 0, 0, 0, 0}};
  SystemCall leave_directory{SYS_chdir, {0, 0, 0, 0, 0, 0}};
  if (has_left_ || !is_born_ || is_closing_) return;
  has_left_ = true;
  if (lets_fail(leave_group)) child_.call(leave_group);
  if (!lets_fail(leave_directory)) return;
  leave_directory.arguments[0] = child_.put_bytes(kRoot.data(), kRoot.size());
  if (leave_directory.arguments[0] != 0) child_.call(leave_directory);
}

bool ForkSnapshot::settle() {
  if (!is_born_) give_up_files(kBirthDeadline);
  if (is_closing_) note_closed(child_.end_call());
  leave_places();
  if (is_giving_up_) child_.end_call();
  is_giving_up_ = false;
  // The target runs again: what the copy does from now on has time.
  child_.end_priority();
  if (!is_born_ || !child_.is_alive() || child_.is_crippled()) return false;
  if (!owns_files_) {
    notes_.push_back(
        "the copy could not close the target's files (close_range): if the target ends, they stay "
        "open until the copy is gone");
  }
  return true;
}

// They may have been listed while the target ran, and have changed since.
void ForkSnapshot::give_up_while_stopped(const std::vector<Mapping>& shared) {
  const auto deadline = TraceClock::now() + kGivingUpWhileStopped;
  for (const Mapping& mapping : shared) {
    if (TraceClock::now() >= deadline) return;
    if (has(mapping)) give_up({mapping}, deadline);
  }
}

// Whether it has this file mapping, exactly there. lstat(2) needs no more rights than ptrace(2).
bool ForkSnapshot::has(const Mapping& mapping) const {
  std::array<char, 64> range{};
  std::snprintf(range.data(), range.size(), "map_files/%" PRIx64 "-%" PRIx64,
                mapping.range.begin.value(), mapping.range.end.value());
  struct stat status {};
  return ::lstat(proc_.path(child_.pid(), range.data()).c_str(), &status) == 0;
}

void ForkSnapshot::give_up(const std::vector<Mapping>& mappings, TraceClock::time_point deadline) {
  for (const Mapping& mapping : mappings) {
    const bool may_call = is_born_ && !is_closing_ && !is_giving_up_;
    const SystemCall call = map_inaccessible(mapping.range, MAP_FIXED);
    if (!may_call || TraceClock::now() >= deadline || !lets_fail(call)) return;
    if (!child_.begin_call(call)) return;
    const auto result = child_.end_call(deadline);
    is_giving_up_ = !result && child_.is_alive() && !child_.is_crippled();
    if (is_giving_up_ || result == static_cast<long>(mapping.range.begin.value())) {
      given_up_.add(mapping);
    }
  }
}

bool ForkSnapshot::occupy(const std::vector<AddressRange>& ranges,
                          TraceClock::time_point deadline) {
  return std::all_of(ranges.begin(), ranges.end(), [&](const AddressRange& range) {
    check_end();
    if (TraceClock::now() >= deadline) return false;
    const SystemCall call = map_inaccessible(range, MAP_FIXED_NOREPLACE);
    return lets_fail(call) && child_.call(call) == static_cast<long>(range.begin.value());
  });
}

bool ForkSnapshot::shield_shared_memory() {
  const AddressSpace space(proc_.maps(child_.pid()));
  for (const Mapping& mapping : space.mappings()) {
    if (!mapping.shared || !mapping.writable) continue;
    if (!protect(mapping, mapping.readable ? PROT_READ : PROT_NONE)) return false;
    shielded_.push_back(mapping);
  }
  return true;
}

void ForkSnapshot::unshield_shared_memory() {
  for (const Mapping& mapping : shielded_) {
    protect(mapping,
            PROT_WRITE | (mapping.readable ? PROT_READ : 0) | (mapping.executable ? PROT_EXEC : 0));
  }
  shielded_.clear();
}

bool ForkSnapshot::protect(const Mapping& mapping, int access) {
  const SystemCall call{
      SYS_mprotect,
      {mapping.range.begin.value(), mapping.range.size(), static_cast<uint64_t>(access), 0, 0, 0}};
  return lets_fail(call) && child_.call(call) == 0;
}

// Whether the target's seccomp filters, which the child has too, at worst make the call fail.
bool ForkSnapshot::lets_fail(const SystemCall& call) const {
  return filters_.lets_fail(as_filter_sees(call, gadget_.syscall_ret));
}

// A process that exits has its memory for some milliseconds more, 5 in 100 MB, in which the OOM
// killer does not see it: near a limit, a target that writes would be killed for it. What the copy
// gives back while it lives is gone when it exits. Not by munmap(2), which takes the mappings away
// before their memory: a copy without mappings is nothing that the OOM killer could free.
void ForkSnapshot::give_memory_back() {
  constexpr uint64_t kWorthIt = 256 << 10;
  constexpr uint64_t kAtOnce = 256 << 20;  // takes some 15 ms
  constexpr size_t kMost = 256;
  const bool may_call = is_born_ && !is_closing_ && !is_giving_up_;
  if (!may_call || !child_.is_alive() || child_.is_crippled() || watch_.has_room_for_all()) return;
  std::vector<AddressRange> ranges;
  const AddressSpace space(proc_.maps(child_.pid()));
  for (const Mapping& mapping : space.mappings()) {
    const bool is_large = mapping.writable && !mapping.shared && mapping.range.size() >= kWorthIt;
    if (is_large && !child_.needs(mapping.range)) ranges.push_back(mapping.range);
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.size() > b.size(); });
  ranges.resize(std::min(ranges.size(), kMost));
  for (const AddressRange& range : ranges) {
    for (uint64_t at = 0; at < range.size(); at += kAtOnce) {
      const SystemCall call{SYS_madvise,
                            {(range.begin + at).value(), std::min(kAtOnce, range.size() - at),
                             MADV_DONTNEED, 0, 0, 0}};
      if (!lets_fail(call) || child_.is_crippled()) return;
      if (child_.call(call) != 0) break;  // locked, or of a device
    }
  }
}

void ForkSnapshot::discard() noexcept {
  if (discarded_) return;
  discarded_ = true;
  const Repair repair;
  try {
    give_memory_back();
  } catch (...) {
    // It gives it back when it exits.
  }
  watch_.end();
  try {
    child_.kill();
    std::string remains = "it could not be killed, and ends with this heapsnap";
    if (!child_.is_alive()) {
      CopyReaper reaper(proc_, process_, gadget_);
      reaper.reap(&child_, TraceClock::now() + kReapDeadline);
      reap_pause_ = reaper.pause();
      notes_.insert(notes_.end(), reaper.notes().begin(), reaper.notes().end());
      remains = reaper.remains();
    }
    if (!remains.empty()) {
      notes_.push_back(zombie_note(remains));
    }
  } catch (...) {
    // Out of memory, at worst with a zombie left behind.
  }
}

}  // namespace heapsnap
