#include "platform/linux/borrowed_donor.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "base/error.h"
#include "platform/linux/kernel_text.h"
#include "platform/linux/malloc_exit.h"

namespace heapsnap {

namespace {

constexpr size_t kDonorsTried = 24;
constexpr std::chrono::milliseconds kStopDeadline{500};
// Where there is nobody else to ask. A thread may wait for a clone that an injector made which was
// killed then; on a busy machine that takes a while to end.
constexpr std::chrono::seconds kLastStopDeadline{5};
constexpr std::chrono::microseconds kSlice{30};
constexpr std::chrono::seconds kLeaveDeadline{5};

struct Candidates {
  std::vector<int> tids;  // in the order to be asked
  size_t alive = 0;
};

// Sleeping threads first: they lose nothing by a stop.
Candidates list_candidates(const ProcFs& proc, int pid) {
  Candidates found;
  std::vector<int> others;
  for (const int tid : proc.task_list(pid)) {
    const auto task = proc.try_stat(tid);
    if (!task || task->is_dead() || task->is_kernel_task()) continue;
    ++found.alive;
    (task->state == 'S' ? found.tids : others).push_back(tid);
  }
  found.tids.insert(found.tids.end(), others.begin(), others.end());
  if (found.tids.size() > kDonorsTried) {
    found.tids.erase(found.tids.begin() + kDonorsTried, found.tids.end());
  }
  return found;
}

// A thread that stands does not execute another program any more. It may have done so since the
// gadget was found; then `memory` throws, or reads something else there.
void check_program(int pid, const DonorTask& task, MemoryReader& memory) {
  constexpr std::array kSyscall{std::byte{0x0f}, std::byte{0x05}};
  std::array<std::byte, kSyscall.size()> code{};
  if (memory.read_exact(Address(task.gadget), code) && code == kSyscall) return;
  throw Error(ErrorKind::kNoProcess, "process " + std::to_string(pid),
              "it executed another program while heapsnap was at work in it");
}

}  // namespace

BorrowedDonor::BorrowedDonor(const ProcFs& proc, int pid, const DonorTask& task,
                             MemoryReader& memory, PriorityLoan& loan)
    : pid_(pid), memory_(memory), loan_(loan) {
  const Candidates candidates = list_candidates(proc, pid);
  is_only_thread_ = candidates.alive == 1;
  std::string why_not = "no thread of it could be stopped";
  for (const int tid : candidates.tids) {
    loan_.lend_to(tid);
    session_ = std::make_unique<PtraceSession>(proc, pid);
    const bool is_last = tid == candidates.tids.back();
    thread_ = session_->stop_one(
        tid, TraceClock::now() + (is_last ? TraceClock::duration(kLastStopDeadline)
                                          : TraceClock::duration(kStopDeadline)));
    if (thread_ == nullptr) {
      why_not = "thread " + std::to_string(tid) + " did not stop";
      continue;
    }
    check_program(pid, task, memory);
    const auto unfit = why_unfit(proc, *thread_, task);
    if (!unfit) return;
    why_not = "thread " + std::to_string(tid) + ": " + *unfit;
  }
  if (session_) session_->release();
  if (candidates.alive == 0) {
    throw Error(ErrorKind::kNoProcess, "no process " + std::to_string(pid), "it ended meanwhile");
  }
  // Another tracer is told about by whoever explains refusals.
  const std::string status = proc.try_read(pid, "status").value_or(std::string());
  const auto tracer = status_number(status, "TracerPid").value_or(0);
  if (tracer != 0 && tracer != static_cast<uint64_t>(::getpid())) throw TraceRefused(EPERM);
  throw Error(ErrorKind::kUnsupported,
              "no thread of process " + std::to_string(pid) + " can make system calls for heapsnap",
              why_not, "look at it without: heapsnap attach --freeze stop " + std::to_string(pid));
}

void BorrowedDonor::leave(const std::vector<AddressRange>& code) {
  const auto deadline = TraceClock::now() + kLeaveDeadline;
  while (is_inside_malloc(code, thread_->registers(), memory_)) {
    if (TraceClock::now() >= deadline || !session_->let_run(*thread_, kSlice, deadline)) {
      release();
      throw Error(
          ErrorKind::kUnsupported, "cannot make a thread in process " + std::to_string(pid_),
          "its only thread is inside the allocator or the loader and stays there", "try again");
    }
    ran_ += kSlice;
  }
}

void BorrowedDonor::release() noexcept {
  if (!session_ || session_->is_released()) return;
  session_->release();
  loan_.take_back();
}

}  // namespace heapsnap
