#include "platform/linux/fork_snapshot.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"
#include "platform/linux/borrowed_thread.h"
#include "platform/linux/donor.h"
#include "platform/linux/kernel_text.h"
#include "platform/linux/memory_room.h"
#include "platform/linux/process_status.h"
#include "platform/linux/realtime_priority.h"

namespace heapsnap {

namespace {

constexpr long kCloseRange = 436;           // close_range(2), 5.9
constexpr uint64_t kCloseRangeUnshare = 2;  // CLOSE_RANGE_UNSHARE
constexpr uint64_t kAllDescriptors = 0xffffffff;
constexpr uint64_t kSetName = 15;  // PR_SET_NAME
// What may be added to the pause; closing takes the child some 50 µs, unless files of it lie on a
// server that has to be asked.
constexpr std::chrono::milliseconds kClosingWhileStopped{5};
constexpr std::chrono::seconds kBirthDeadline{5};
constexpr std::chrono::milliseconds kReapDeadline{200};
constexpr size_t kReapersTried = 8;

// No exit signal; the table of open files is shared instead of copied, which costs nothing and
// takes no reference to any of them.
constexpr uint64_t kSnapshotFlags = CLONE_FILES;
// A passing thread of the target. CLONE_VFORK holds the donor until it is gone, since its frames
// lie on the donor's stack.
constexpr uint64_t kReaperFlags =
    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_VFORK;

SystemCall exit_call(long number) {
  return {number, {0, 0, 0, 0, 0, 0}};
}

SystemCall reap_call(int pid) {
  // Both flags leave no way to wait or to reap another one.
  return {SYS_wait4, {static_cast<uint64_t>(pid), 0, WNOHANG | __WALL, 0, 0, 0}};
}

// Everything that will be done in the name of the donor, now and at the end.
DonorTask donor_task(uint64_t clone_flags, std::vector<SystemCall> chain,
                     const SyscallGadget& gadget) {
  DonorTask task;
  task.chain_length = chain.size();
  task.gadget = gadget.syscall_ret;
  task.calls = std::move(chain);
  task.calls.push_back({SYS_clone, {clone_flags, 0, 0, 0, 0, 0}});
  task.calls.push_back({SYS_rt_sigreturn, {}});
  return task;
}

bool is_same_namespace(const std::string& a, const std::string& b) {
  struct stat first {};
  struct stat second {};
  return ::stat(a.c_str(), &first) != 0 || ::stat(b.c_str(), &second) != 0 ||
         (first.st_ino == second.st_ino && first.st_dev == second.st_dev);
}

}  // namespace

std::optional<std::string> ForkSnapshot::refusal(const ProcFs& proc, int process, int tid) {
  const auto status = parse_process_status(proc.read(tid, "status"));
  if (status && status->shadow_stack) {
    return "the target has a shadow stack, which a call made in its name would violate";
  }
  // A first child in a new pid namespace is its init; when that ends, no other can be made.
  if (!is_same_namespace(proc.path(tid, "ns/pid"), proc.path(tid, "ns/pid_for_children"))) {
    return "children of the target are born into another pid namespace";
  }
  if (const auto no_room = find_copy_refusal(process)) return no_room->what + ": " + no_room->why;
  return std::nullopt;
}

std::unique_ptr<ForkSnapshot> ForkSnapshot::take(const ProcFs& proc, int process,
                                                 PtraceSession& session,
                                                 const SyscallGadget& gadget, PriorityLoan& loan,
                                                 TraceClock::time_point deadline,
                                                 std::string& why_not) {
  const std::vector<SystemCall> chain{exit_call(SYS_exit_group)};
  DonorTask task = donor_task(kSnapshotFlags, chain, gadget);
  for (const SystemCall& call :
       donor_task(kReaperFlags, {reap_call(1), exit_call(SYS_exit)}, gadget).calls) {
    task.calls.push_back(call);
  }
  const auto chosen = choose_donor(proc, process, session.tracees(), task, why_not);
  if (!chosen) return nullptr;
  Tracee& donor = session.tracees()[*chosen];
  loan.lend_to(donor.tid());
  BorrowedThread borrowed(donor, gadget);
  switch (borrowed.clone(kSnapshotFlags, chain, deadline)) {
    case BorrowedThread::Outcome::kCloned: break;
    case BorrowedThread::Outcome::kRefused:
      why_not = "the kernel refused to clone the target";
      if (borrowed.refusal() != 0) why_not += ": " + errno_text(borrowed.refusal());
      return nullptr;
    case BorrowedThread::Outcome::kGone: why_not = "the donor thread ended"; return nullptr;
    case BorrowedThread::Outcome::kStuck: break;
  }
  const bool is_complete = borrowed.clone_pid() != 0;
  // The donor goes home while it has the processor for itself. But a clone that got stuck waits for
  // something that only the target itself can do, such as reading from a userfaultfd(2).
  if (!is_complete) session.release_others(donor);
  const bool caught = borrowed.give_back();
  std::unique_ptr<ForkSnapshot> snapshot;
  if (borrowed.clone_pid() != 0) {
    snapshot.reset(
        new ForkSnapshot(proc, process, donor.tid(), gadget,
                         SnapshotChild(borrowed.clone_pid(), gadget, borrowed.clone_stack())));
    snapshot->note_donor(donor.tid(), caught);
    if (is_complete) snapshot->give_up_files(TraceClock::now() + kClosingWhileStopped);
  }
  session.release();
  if (is_complete) return snapshot;
  why_not = "the copy did not come to an end while the target stood still";
  return nullptr;
}

// While the target stands still, if that is soon done: close_range(2) first takes references to
// some of the files that it then closes. A file that the target closed in that moment would stay in
// its epoll(7) sets for as long, and be reported there. But to close a file can mean to write to a
// server, which may be the target itself.
void ForkSnapshot::give_up_files(TraceClock::time_point deadline) {
  make_realtime(child_.pid());  // it has yet to reach its first stop
  is_born_ = child_.await_birth(deadline);
  if (!is_born_) return;
  filters_ = read_seccomp_filters(child_.pid());
  const SystemCall close{kCloseRange, {0, kAllDescriptors, kCloseRangeUnshare, 0, 0, 0}};
  is_closing_ = lets_fail(close) && child_.begin_call(close);
  if (is_closing_) end_closing(deadline);
}

void ForkSnapshot::end_closing(TraceClock::time_point deadline) {
  const auto closed = child_.end_call(deadline);
  is_closing_ = !closed && child_.is_alive();
  owns_files_ = closed == 0;
}

bool ForkSnapshot::settle() {
  if (!is_born_) give_up_files(TraceClock::now() + kBirthDeadline);
  if (is_closing_) end_closing(SnapshotChild::kNever);
  if (!is_born_ || !child_.is_alive()) return false;
  if (!owns_files_) {
    notes_.push_back(
        "the copy could not let go of the target's open files (close_range): should the target "
        "end, they stay open until the copy is gone");
  }
  const std::string_view name = kChildName;
  const uint64_t text = child_.put_bytes(name.data(), name.size());
  const SystemCall rename{SYS_prctl, {kSetName, text, 0, 0, 0, 0}};
  if (text != 0 && lets_fail(rename)) child_.call(rename);
  const UniqueFd adjust(
      ::open(proc_.path(child_.pid(), "oom_score_adj").c_str(), O_WRONLY | O_CLOEXEC));
  constexpr std::string_view kFirstToGo = "1000";
  if (!adjust || ::write(adjust.get(), kFirstToGo.data(), kFirstToGo.size()) < 0) {
    notes_.push_back("the copy could not be made the first to go when memory runs out");
  }
  return true;
}

// Whether the target's seccomp filters, which the child has too, at worst refuse the call.
bool ForkSnapshot::lets_fail(const SystemCall& call) const {
  return filters_.lets_fail(as_filter_sees(call, gadget_.syscall_ret));
}

void ForkSnapshot::discard() noexcept {
  if (discarded_) return;
  discarded_ = true;
  try {
    const int inside = pid_inside(child_.pid());
    child_.kill();
    reap(inside);
  } catch (...) {
    // Out of memory, at worst with a zombie left.
  }
}

void ForkSnapshot::note_donor(int tid, bool was_caught) {
  if (was_caught) return;
  notes_.push_back("thread " + std::to_string(tid) +
                   " found its way back by itself: if it slept, its sleep began anew");
}

// The pid by which the target itself knows one of its children.
int ForkSnapshot::pid_inside(int pid) const {
  const auto depth = [this](int of) {
    const auto status = parse_process_status(proc_.try_read(of, "status").value_or(std::string()));
    return status ? status->namespace_pids : std::vector<int>();
  };
  const std::vector<int> target_pids =
      depth(donor_tid_).empty() ? depth(process_) : depth(donor_tid_);
  const std::vector<int> pids = depth(pid);
  if (target_pids.empty() || pids.size() < target_pids.size()) return pid;
  return pids[target_pids.size() - 1];
}

void ForkSnapshot::reap(int zombie) {
  const RealtimePriority priority;
  PriorityLoan loan;
  std::vector<int> tids = proc_.task_list(process_);
  if (const auto donor = std::find(tids.begin(), tids.end(), donor_tid_); donor != tids.end()) {
    std::rotate(tids.begin(), donor, donor + 1);
  }
  tids.resize(std::min(tids.size(), kReapersTried));
  std::string why_not;
  for (const int tid : tids) {
    if (reap_by(tid, zombie, loan, why_not)) return;
  }
  // A target that has ended meanwhile left the child to its own parent, or to init.
  if (tids.empty()) return;
  notes_.push_back("the ended copy remains as a zombie of the target: " + why_not);
}

bool ForkSnapshot::reap_by(int tid, int zombie, PriorityLoan& loan, std::string& why_not) {
  loan.lend_to(tid);
  PtraceSession session(proc_, process_);
  const auto deadline = TraceClock::now() + kReapDeadline;
  Tracee* const thread = session.stop_one(tid, deadline);
  bool reaped = false;
  if (thread == nullptr) {
    why_not = "thread " + std::to_string(tid) + " did not stop";
  } else {
    const std::vector<SystemCall> chain{reap_call(zombie), exit_call(SYS_exit)};
    const auto unfit = why_unfit(proc_, *thread, donor_task(kReaperFlags, chain, gadget_));
    if (unfit) {
      why_not = *unfit;
    } else {
      BorrowedThread borrowed(*thread, gadget_);
      if (borrowed.clone(kReaperFlags, chain, deadline) == BorrowedThread::Outcome::kCloned) {
        Tracee reaper(process_, borrowed.clone_pid());
        make_realtime(borrowed.clone_pid());  // the donor waits for it
        note_donor(tid, borrowed.give_back([&] {
          if (reaper.wait(TraceClock::now() + kReapDeadline)) reaper.detach();
        }));
        reaped = true;
      } else {
        why_not = "the kernel refused a thread to reap it with";
      }
    }
  }
  session.release();
  reap_pause_ += session.pause();
  return reaped;
}

}  // namespace heapsnap
