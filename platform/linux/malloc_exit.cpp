#include "platform/linux/malloc_exit.h"

#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "platform/linux/interrupted_syscall.h"
#include "platform/linux/realtime_priority.h"

namespace heapsnap {

namespace {

// One call of the allocator takes a few hundred instructions; one that consolidates a large heap
// some hundred thousand.
constexpr uint64_t kMostSteps = 400'000;
constexpr std::chrono::seconds kMostStepTime{5};
// The target runs on while its copy is stepped, so that may take its time. But on a busy machine
// each step waits for the processor, for up to a time slice; so now and then heapsnap takes it for
// a moment, and leaves nine tenths of the time to others.
constexpr std::chrono::milliseconds kBurstEvery{20};
constexpr std::chrono::milliseconds kBurst{2};
// A thread that has left the allocator's code for so long copies or clears memory for it: nothing
// of the arena is half done then. Or the return address was an old one.
constexpr uint64_t kMostStepsOutside = 4096;
constexpr int kMostSlices = 100;
constexpr std::chrono::microseconds kSlice{20};

constexpr uint64_t kSyscallInstruction = 0x050f;

// What the allocator asks of the kernel (glibc 2.17 to 2.43).
bool is_allocator_call(uint64_t number) {
  constexpr std::array<uint64_t, 7> kCalls{
      SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, SYS_mprotect, SYS_sched_getaffinity};
  return std::find(kCalls.begin(), kCalls.end(), number) != kCalls.end();
}

bool is_futex_wake(const user_regs_struct& registers) {
  constexpr uint64_t kOperation = 0x7f;
  constexpr uint64_t kWake = 1;
  return registers.rax == SYS_futex && (registers.rsi & kOperation) == kWake;
}

// Whether a futex wait would come back at once, since the lock is not taken as it was any more.
bool finds_futex_changed(const user_regs_struct& registers, MemoryReader& memory) {
  const auto word = memory.read_value<uint32_t>(Address(registers.rdi));
  return word && *word != static_cast<uint32_t>(registers.rdx);
}

bool is_vma_naming(const user_regs_struct& registers) {
  constexpr uint64_t kSetVma = 0x53564d41;  // PR_SET_VMA, glibc 2.39 names its mappings
  return registers.rax == SYS_prctl && registers.rdi == kSetVma;
}

bool is_in_text(const MallocText& text, uint64_t address) {
  return std::any_of(text.begin(), text.end(), [address](const AddressRange& range) {
    return range.contains(Address(address));
  });
}

class StepClock {
 public:
  bool has_run_out() const { return now_ > begin_ + kMostStepTime; }

  // To be called before each step.
  void tick() {
    now_ = TraceClock::now();
    const bool in_burst = (now_ - begin_) % kBurstEvery >= kBurstEvery - kBurst;
    if (in_burst == priority_.has_value()) return;
    if (in_burst) {
      priority_.emplace();
    } else {
      priority_.reset();
    }
  }

 private:
  const TraceClock::time_point begin_ = TraceClock::now();
  TraceClock::time_point now_ = begin_;
  std::optional<RealtimePriority> priority_;
};

enum class StepEnd { kOut, kWaits, kStuck };

// Steps the child, which has taken up `context`, until that is out of the allocator.
StepEnd step_out(const MallocText& text, SnapshotChild& child, MemoryReader& memory,
                 ThreadContext& context, StepClock& clock, uint64_t& steps) {
  if (!child.set_context(context.registers, context.extended_state)) return StepEnd::kStuck;
  uint64_t outside = 0;
  for (uint64_t count = 0; count < kMostSteps; ++count) {
    const auto registers = child.registers();
    if (!registers) return StepEnd::kStuck;
    context.registers = *registers;
    outside = is_in_text(text, registers->rip) ? 0 : outside + 1;
    if (outside > kMostStepsOutside || !is_inside_malloc(text, *registers, memory)) {
      return StepEnd::kOut;
    }
    const auto instruction = child.peek(registers->rip);
    if (instruction && (*instruction & 0xffff) == kSyscallInstruction) {
      if (registers->rax == SYS_futex && !is_futex_wake(*registers)) {
        // Never really made: nobody would wake the child.
        if (!finds_futex_changed(*registers, memory)) return StepEnd::kWaits;
        context.registers.rax = static_cast<unsigned long long>(-EAGAIN);
        context.registers.rip += 2;
        context.extended_state = child.extended_state();
        if (!child.set_context(context.registers, context.extended_state)) return StepEnd::kStuck;
        continue;
      }
      if (!is_allocator_call(registers->rax) && !is_futex_wake(*registers) &&
          !is_vma_naming(*registers)) {
        return StepEnd::kStuck;
      }
    }
    clock.tick();
    if (clock.has_run_out() || !child.step()) return StepEnd::kStuck;
    ++steps;
  }
  return StepEnd::kStuck;
}

}  // namespace

bool is_inside_malloc(const MallocText& text, const user_regs_struct& registers,
                      std::span<const uint64_t> near_stack) {
  if (is_in_text(text, registers.rip)) return true;
  if (is_in_syscall(registers) && !is_allocator_call(registers.orig_rax)) return false;
  return std::any_of(near_stack.begin(), near_stack.end(),
                     [&text](uint64_t word) { return is_in_text(text, word); });
}

bool is_inside_malloc(const MallocText& text, const user_regs_struct& registers,
                      MemoryReader& memory) {
  if (text.empty()) return false;
  if (is_in_text(text, registers.rip)) return true;
  if (is_in_syscall(registers) && !is_allocator_call(registers.orig_rax)) return false;
  std::array<uint64_t, kNearStack / sizeof(uint64_t)> words;
  const size_t count =
      memory.read(Address(registers.rsp), std::as_writable_bytes(std::span(words)));
  return is_inside_malloc(text, registers, std::span(words).first(count / sizeof(uint64_t)));
}

std::vector<ThreadContext> threads_inside_malloc(const MallocText& text,
                                                 const PtraceSession& session,
                                                 MemoryReader& memory) {
  std::vector<ThreadContext> inside;
  for (const Tracee& tracee : session.tracees()) {
    if (!tracee.is_stopped() || !is_inside_malloc(text, tracee.registers(), memory)) continue;
    inside.push_back(
        {tracee.tid(), restarted_registers(tracee.registers()), tracee.extended_state()});
  }
  return inside;
}

MallocExit step_out_in_child(const MallocText& text, SnapshotChild& child, MemoryReader& memory,
                             std::vector<ThreadContext>& inside) {
  MallocExit exit;
  StepClock clock;
  std::vector<ThreadContext*> left;
  for (ThreadContext& context : inside) left.push_back(&context);
  // Who waits for a lock that another one holds gets it when that one is out: as many rounds as
  // there are threads suffice, and one in which nobody gets on is the last.
  std::vector<ThreadContext*> stuck;
  while (!left.empty()) {
    std::vector<ThreadContext*> waiting;
    for (ThreadContext* context : left) {
      const StepEnd end = step_out(text, child, memory, *context, clock, exit.steps);
      context->extended_state = child.extended_state();
      if (end == StepEnd::kWaits) waiting.push_back(context);
      if (end == StepEnd::kStuck) stuck.push_back(context);
    }
    if (waiting.size() == left.size()) break;
    left = std::move(waiting);
  }
  exit.still_inside = stuck.size();
  return exit;
}

MallocExit run_out_in_target(const MallocText& text, PtraceSession& session, MemoryReader& memory,
                             PriorityLoan& loan, TraceClock::time_point deadline) {
  MallocExit exit;
  for (size_t i = 0; i < session.tracees().size(); ++i) {
    int slices = 0;
    bool inside = true;
    while (inside && slices <= kMostSlices && TraceClock::now() < deadline) {
      Tracee& tracee = session.tracees()[i];
      inside = tracee.is_stopped() && is_inside_malloc(text, tracee.registers(), memory);
      if (!inside || slices++ == kMostSlices) break;
      loan.lend_to(tracee.tid());
      if (!session.let_run(tracee, kSlice, deadline)) break;
      ++exit.steps;
    }
    if (inside) ++exit.still_inside;
    loan.take_back();
    session.stop_new(deadline);
  }
  return exit;
}

}  // namespace heapsnap
