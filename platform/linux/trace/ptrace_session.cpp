#include "platform/linux/trace/ptrace_session.h"

#include <linux/sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "base/alteration.h"
#include "base/error.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/target_refusal.h"
#include "platform/linux/self/nap.h"
#include "platform/linux/self/task_priority.h"
#include "platform/linux/trace/interrupted_syscall.h"
#include "platform/linux/trace/late_tracees.h"
#include "platform/linux/trace/page_wait.h"
#include "platform/linux/trace/reaping_seize.h"

namespace heapsnap {

namespace {

// Processor time that each awaited thread needs, and the shortest wait for one. A tracer with
// real-time priority that polls more often keeps the processor from them: 200 busy threads on two
// processors were stopped after 7.9 ms, but after up to 22 ms when it polled every 5 us.
constexpr std::chrono::microseconds kTurn{2};
constexpr std::chrono::microseconds kShortestNap{5};
// How long no thread may have stopped before the next one inherits priority ...
constexpr std::chrono::microseconds kLendAfter{50};
// ... and before we find out why.
constexpr std::chrono::milliseconds kFirstLook{2};
// Threads in delicate system calls are interrupted this many at a time: if heapsnap were killed
// just then, no more of them would get an EINTR. The others cannot be harmed; they are not batched.
constexpr size_t kDelicateAtOnce = 2;
// How long all threads stay stopped to wait for those that cannot stop now.
constexpr std::chrono::milliseconds kStragglerGrace{20};
constexpr std::chrono::microseconds kBetweenCollections{200};

// proc(5): of a thread that sleeps, but in no system call, as for a page.
constexpr std::string_view kOutsideCalls = "-1";

struct SleepingCall {
  long number = 0;             // -1: none
  std::string first_argument;  // as the kernel writes it: 0x4111
};

// The system call in which a thread sleeps; nullopt: it runs, or nothing can be read.
std::optional<SleepingCall> sleeping_call(const ProcFs& proc, int tid) {
  const std::string call = proc.try_read(tid, "syscall").value_or(std::string());
  std::string_view rest = call;
  const std::string_view first = take_word(rest);
  if (first == kOutsideCalls) return SleepingCall{-1, {}};
  const auto number = parse_number(first);  // "running" while it runs
  if (!number) return std::nullopt;
  return SleepingCall{static_cast<long>(*number), std::string(take_word(rest))};
}

// Whether a thread in uninterruptible sleep may be waiting for a child to execute another program.
// The flags of clone3(2) are in memory.
bool may_wait_for_vfork(const SleepingCall& call) {
  if (call.number == SYS_vfork || call.number == SYS_clone3) return true;
  return call.number == SYS_clone &&
         (std::strtoull(call.first_argument.c_str(), nullptr, 16) & CLONE_VFORK) != 0;
}

// Below /proc/PID: not there once the tid is another process's.
std::string task_entry(int tid, const std::string& entry) {
  return "task/" + std::to_string(tid) + "/" + entry;
}

// Whether a thread sleeps in a system call that a stop interrupts and that we have to repair.
bool is_in_delicate_call(const ProcFs& proc, int tid) {
  const auto call = sleeping_call(proc, tid);
  return call && is_broken_by_stop(call->number);
}

}  // namespace

PtraceSession::PtraceSession(const ProcFs& proc, int pid, std::vector<Tracee> stopped)
    : proc_(proc), pid_(pid), tracees_(std::move(stopped)), began_(true) {
  first_interrupt_ = TraceClock::now();
  for (const int tid : proc_.task_list(pid_)) known_.insert(tid);  // exiting ones, too
}

PtraceSession::~PtraceSession() {
  if (!released_) release();
  if (!collect_stragglers()) return;
  try {
    std::erase_if(tracees_, [](const Tracee& tracee) { return tracee.is_gone(); });
    detach_when_stopped(std::move(tracees_));
  } catch (...) {
    // Out of memory: the end of the tracing thread does the same.
  }
}

void PtraceSession::seize_all() {
  // All threads of a list may have ended before they were seized, while another goes on.
  constexpr int kMostLists = 100;
  check_end();
  for (int lists = 1; lists <= kMostLists; ++lists) {
    while (seize_new(pid_) > 0) {
    }
    if (!tracees_.empty() || !proc_.live_tid(pid_)) break;
  }
  seize_sharers(proc_.children(pid_));
}

void PtraceSession::stop_all(TraceClock::time_point deadline, PriorityInheritance& inheritance) {
  first_interrupt_ = TraceClock::now();
  began_ = true;
  inheritance_ = &inheritance;
  stop_new(deadline);
  inheritance_ = nullptr;
}

Tracee* PtraceSession::stop_one(int tid, TraceClock::time_point deadline) {
  const auto late = take_late_tracee(tid);
  Tracee seized = late.value_or(Tracee(pid_, tid));
  first_interrupt_ = TraceClock::now();
  if (!late && seize_reaping(seized, {}) != 0) return nullptr;
  tracees_.push_back(seized);
  Tracee& tracee = tracees_.back();
  outrank(tid);
  tracee.interrupt();
  if (!tracee.wait(deadline) || !tracee.is_stopped()) return nullptr;
  note_stop(tracee);
  return &tracee;
}

void PtraceSession::deliver_signals(TraceClock::time_point deadline,
                                    PriorityInheritance& inheritance) {
  const auto is_trapped = [this](const Tracee& tracee) {
    return tracee.process() == pid_ && tracee.stop() == Tracee::Stop::kTrap;
  };
  if (std::any_of(tracees_.begin(), tracees_.end(), is_trapped)) return;
  std::vector<size_t> running;
  for (size_t i = 0; i < tracees_.size(); ++i) {
    Tracee& tracee = tracees_[i];
    if (tracee.process() != pid_ || tracee.stop() != Tracee::Stop::kSignal) continue;
    // The interrupt is pending when it runs on, and comes before a further signal.
    tracee.interrupt();
    if (tracee.resume()) {
      running.push_back(i);
    } else {
      tracee.forget_stop();
      stragglers_.insert(tracee.tid());
    }
  }
  inheritance_ = &inheritance;
  await_stops(std::move(running), deadline);
  inheritance_ = nullptr;
}

bool PtraceSession::let_run(Tracee& tracee, std::chrono::microseconds slice,
                            TraceClock::time_point deadline) {
  if (!tracee.resume()) return false;
  // A thread that a signal stops is not left stopped until the slice ends: by then a timer of the
  // program's would have sent the next signal, and so forth, and it would never run. The interrupt,
  // too, would be left over and end the next slice before it begins.
  if (!tracee.wait(TraceClock::now() + slice)) tracee.interrupt();
  if (!tracee.wait(deadline)) return false;
  note_stop(tracee);
  return tracee.is_stopped();
}

void PtraceSession::stop_new(TraceClock::time_point deadline) {
  forget_stopped_stragglers();
  do {
    std::vector<size_t> hardy;
    std::vector<size_t> delicate;
    for (size_t i = 0; i < tracees_.size(); ++i) {
      if (tracees_[i].stop() != Tracee::Stop::kNone) continue;
      if (stragglers_.contains(tracees_[i].tid())) continue;
      (delicate_.contains(tracees_[i].tid()) ? delicate : hardy).push_back(i);
    }
    stop_these(std::move(hardy), deadline);
    for (size_t begin = 0; begin < delicate.size(); begin += kDelicateAtOnce) {
      const size_t end = std::min(begin + kDelicateAtOnce, delicate.size());
      stop_these({delicate.begin() + static_cast<ptrdiff_t>(begin),
                  delicate.begin() + static_cast<ptrdiff_t>(end)},
                 deadline);
    }
  } while (!all_still_stopped() || (!knows_all_threads() && seize_new(pid_) > 0));
  drop_strangers();
  misses_vfork_child_ = sharers_.empty() &&
                        std::any_of(tracees_.begin(), tracees_.end(), [this](const Tracee& tracee) {
                          return waits_for_vfork(tracee);
                        });
  if (std::none_of(tracees_.begin(), tracees_.end(),
                   [](const Tracee& tracee) { return !tracee.is_gone(); })) {
    throw Error(ErrorKind::kNoProcess, "no process " + std::to_string(pid_),
                "it ended while it was being stopped", kFindSuccessor);
  }
}

size_t PtraceSession::seize_new(int process) {
  std::vector<int> tids;
  // Looked at before the first one is traced: the shorter they are traced without being stopped,
  // the better.
  for (const int tid : proc_.task_list(process)) {
    if (known_.contains(tid)) continue;
    if (is_kernels(process, tid)) {
      known_.insert(tid);
    } else {
      tids.push_back(tid);
    }
  }
  size_t seized = 0;
  for (const int tid : tids) {
    Tracee tracee(process, tid);
    int refusal = seize_reaping(tracee, tracees_);
    // One that ends is refused; after an execve its tid may be that of another, which lives.
    if (refusal == EPERM && !is_ours_already(tid)) refusal = seize_reaping(tracee, tracees_);
    if (refusal == ESRCH) continue;  // it has exited since it was listed
    if (refusal != 0 && !is_ours_already(tid)) {
      const auto task = proc_.try_stat(tid);
      if (!task) continue;
      if (!task->is_dead()) throw TargetRefusal(pid_, refusal);
      known_.insert(tid);
      continue;
    }
    known_.insert(tid);
    take_late_tracee(tid);
    // It has ended since it was listed, and the tid is another process's now.
    if (!proc_.try_read(process, task_entry(tid, "comm"))) {
      tracee.interrupt();
      detach_when_stopped({tracee});
      continue;
    }
    outrank(tid);
    tracees_.push_back(tracee);
    if (!began_ && is_in_delicate_call(proc_, tid)) delicate_.insert(tid);
    ++seized;
  }
  return seized;
}

// A worker of io_uring(7): a thread of the process that runs only the kernel's code. The kernel
// lets it be traced, but it cannot call anything: it never returns to the program.
bool PtraceSession::is_kernels(int process, int tid) const {
  const auto text = proc_.try_read(process, task_entry(tid, "stat"));
  return text && !text->empty() && parse_stat(*text).is_kernel_task();
}

// A straggler of an earlier session, which that session's interrupt has yet to stop.
bool PtraceSession::is_ours_already(int tid) const {
  const std::string status = proc_.try_read(tid, "status").value_or(std::string());
  return status_number(status, "TracerPid") == static_cast<uint64_t>(::gettid());
}

void PtraceSession::stop_these(std::vector<size_t> late, TraceClock::time_point deadline) {
  for (const size_t i : late) tracees_[i].interrupt();
  await_stops(std::move(late), deadline);
}

void PtraceSession::await_stops(std::vector<size_t> late, TraceClock::time_point deadline) {
  const auto begin = TraceClock::now();
  auto last_progress = begin;
  PageWait page_wait(proc_, pid_);
  // Handle each stop as soon as it happens, whichever threads are still awaited: if heapsnap were
  // killed before the repair, the thread would get its EINTR.
  while (true) {
    const size_t count_before = late.size();
    std::erase_if(late, [this](size_t i) {
      if (!tracees_[i].poll()) return false;
      note_stop(tracees_[i]);
      return true;
    });
    if (late.empty()) break;
    const auto now = TraceClock::now();
    if (late.size() < count_before) last_progress = now;
    if (inheritance_ != nullptr && now - last_progress > kLendAfter) {
      inheritance_->raise(tracees_[late.front()].tid());
    }
    check_end();
    if (now - last_progress < kFirstLook) {
      nap(std::max(kShortestNap, kTurn * static_cast<long>(late.size())));
      continue;
    }
    // When all are killed, the leader has ended once the others are no zombies of ours.
    for (const Tracee& tracee : tracees_) tracee.give_up_zombie();
    if (only_stragglers_left(late, page_wait, now - begin)) break;
    if (now >= deadline) fail_to_stop(tracees_[late.front()].tid());
    nap(std::chrono::microseconds(100));
  }
  for (const size_t i : late) stragglers_.insert(tracees_[i].tid());
}

void PtraceSession::forget_stopped_stragglers() {
  for (Tracee& tracee : tracees_) {
    if (!stragglers_.contains(tracee.tid()) || !tracee.poll()) continue;
    note_stop(tracee);
    stragglers_.erase(tracee.tid());
  }
}

// Examines the threads that take long; adds to them a vfork child that one of them waits for.
bool PtraceSession::only_stragglers_left(std::vector<size_t>& late, PageWait& page_wait,
                                         std::chrono::nanoseconds waited) {
  const size_t count_before = tracees_.size();
  bool none_can_stop = true;
  for (const size_t i : late) {
    const int tid = tracees_[i].tid();
    const auto task = proc_.try_stat(tid);
    if (!task) continue;
    if (task->is_uninterruptible()) {
      seize_sharers(proc_.children_of_thread(tid));
    } else if (!page_wait.holds(tid)) {
      none_can_stop = false;
    }
  }
  for (size_t i = count_before; i < tracees_.size(); ++i) {
    tracees_[i].interrupt();
    late.push_back(i);
    none_can_stop = false;
  }
  return none_can_stop && waited >= kStragglerGrace;
}

void PtraceSession::fail_to_stop(int tid) const {
  throw Error(
      ErrorKind::kUnsupported, "cannot stop process " + std::to_string(pid_),
      "thread " + std::to_string(tid) + " (" + proc_.comm(tid) +
          ") did not stop in time; all threads were resumed",
      "try again when the machine is less busy, or read it while it runs: heapsnap attach --freeze "
      "none " +
          std::to_string(pid_));
}

void PtraceSession::note_stop(Tracee& tracee) {
  const auto repaired = repaired_registers(tracee);
  if (repaired && tracee.set_registers(*repaired)) ++syscalls_restarted_;
}

// An execve in one thread kills the others, stopped or not, and gives that thread the leader's tid:
// a tid that was stopped may be running again.
bool PtraceSession::all_still_stopped() {
  bool all = true;
  for (Tracee& tracee : tracees_) {
    if (!tracee.is_stopped() || tracee.load_registers()) continue;
    tracee.forget_stop();
    all = false;
  }
  return all;
}

bool PtraceSession::may_execute() const {
  return std::any_of(tracees_.begin(), tracees_.end(), [this](const Tracee& tracee) {
    if (tracee.is_stopped() || tracee.is_gone() || tracee.process() != pid_) return false;
    const auto call = sleeping_call(proc_, tracee.tid());
    return !call || call->number == SYS_execve || call->number == SYS_execveat;
  });
}

// Compares the kernel's own count, which is one line to read, with ours, which takes many.
bool PtraceSession::knows_all_threads() const {
  const auto status = proc_.try_read(pid_, "status");
  if (!status) return false;
  size_t alive = 0;
  for (const Tracee& tracee : tracees_) {
    if (!tracee.is_gone()) ++alive;
  }
  return sharers_.empty() && status_number(*status, "Threads") == alive;
}

void PtraceSession::seize_sharers(const std::vector<int>& children) {
  for (const int child : children) {
    if (known_.contains(child)) continue;
    const CommonMemory memory = common_memory(proc_, live_tid(), child);
    if (memory == CommonMemory::kNo) continue;
    try {
      if (seize_new(child) != 0) sharers_.push_back({child, memory, true});
    } catch (const TargetRefusal&) {
      // A forked child of another user, or one already traced, does not bar a look at its parent.
      if (memory == CommonMemory::kYes) throw;
      known_.insert(child);
      sharers_.push_back({child, memory, false});
    }
  }
}

// Detaches those that turn out to have their own memory: by what they did before they stopped, or
// by figures that no longer change.
void PtraceSession::drop_strangers() {
  std::erase_if(sharers_, [this](const Sharer& sharer) {
    if (common_memory(proc_, live_tid(), sharer.pid) != CommonMemory::kNo) return false;
    std::erase_if(tracees_, [&sharer](Tracee& tracee) {
      return tracee.process() == sharer.pid && tracee.is_stopped() && tracee.detach();
    });
    return true;
  });
}

bool PtraceSession::waits_for_vfork(const Tracee& tracee) const {
  if (tracee.is_stopped() || tracee.is_gone()) return false;
  const auto task = proc_.try_stat(tracee.tid());
  const auto call = sleeping_call(proc_, tracee.tid());
  return task && task->is_uninterruptible() && call && may_wait_for_vfork(*call);
}

void PtraceSession::release() noexcept {
  for (Tracee& tracee : tracees_) let_go(tracee);
  last_release_ = TraceClock::now();
  released_ = true;
}

void PtraceSession::release_others(const Tracee& kept) noexcept {
  for (Tracee& tracee : tracees_) {
    if (&tracee != &kept) let_go(tracee);
  }
}

void PtraceSession::let_go(Tracee& tracee) noexcept {
  if (!tracee.is_stopped() || tracee.detach()) return;
  tracee.forget_stop();  // killed, or taken over by an execve: not where we left it
  stragglers_.insert(tracee.tid());
}

bool PtraceSession::collect_stragglers() noexcept {
  size_t left = 0;
  for (Tracee& tracee : tracees_) {
    if (!detach_if_stopped(tracee)) ++left;
  }
  return left != 0;
}

bool PtraceSession::await_stragglers(TraceClock::time_point deadline) noexcept {
  while (collect_stragglers()) {
    if (TraceClock::now() >= deadline) return false;
    nap_beside_late_tracees(kBetweenCollections);
  }
  return true;
}

int PtraceSession::live_tid() const {
  for (const Tracee& tracee : tracees_) {
    if (!tracee.is_gone()) return tracee.tid();
  }
  return pid_;
}

bool PtraceSession::was_stopped_before() const {
  return std::any_of(tracees_.begin(), tracees_.end(), [](const Tracee& tracee) {
    return tracee.stop() == Tracee::Stop::kGroupStop;
  });
}

std::chrono::nanoseconds PtraceSession::pause() const {
  if (first_interrupt_ == TraceClock::time_point{}) return {};
  const auto end = released_ ? last_release_ : TraceClock::now();
  return end - first_interrupt_;
}

}  // namespace heapsnap
