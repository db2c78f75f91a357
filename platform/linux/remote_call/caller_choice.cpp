#include "platform/linux/remote_call/caller_choice.h"

#include <sched.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>

#include "platform/linux/proc/system_call_names.h"
#include "platform/linux/remote_call/frame_place.h"
#include "platform/linux/trace/interrupted_syscall.h"

namespace heapsnap {

namespace {

constexpr uint64_t kUserCode64 = 0x33;
// Stack left below the frames: if heapsnap dies before the thread's signals are blocked, a handler
// may run there.
constexpr uint64_t kSlack = 16384;
constexpr uint64_t kLargestExtendedState = 12288;
// How many threads to examine closely, those at the least risk first.
constexpr size_t kCandidates = 32;

constexpr int kDeadlinePolicy = 6;  // SCHED_DEADLINE, which the C library has no name for

constexpr int kGetRseqConfiguration = 0x420f;  // PTRACE_GET_RSEQ_CONFIGURATION, 5.13
constexpr int kGetSyscallDispatch = 0x4211;    // PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, 6.4

struct RseqConfiguration {
  uint64_t area;
  uint32_t size;
  uint32_t signature;
  uint32_t flags;
  uint32_t padding;
};

struct SyscallDispatch {
  uint64_t mode;
  uint64_t selector;
  uint64_t offset;
  uint64_t length;
};

template <typename T>
bool ask(int request, int tid, T& answer) {
  return ::ptrace(static_cast<__ptrace_request>(request), tid,
                  reinterpret_cast<void*>(sizeof answer), &answer) >= 0;
}

// The kernel aborts a restartable sequence when the thread was preempted in it, judging by the
// instruction pointer: if we moved that, the kernel would miss the sequence, which would continue
// as if nothing had happened. No sequence is active inside a system call.
// nullopt before Linux 5.13.
std::optional<uint64_t> rseq_area(const Tracee& thread) {
  RseqConfiguration configuration{};
  if (!ask(kGetRseqConfiguration, thread.tid(), configuration)) return std::nullopt;
  return configuration.area;
}

bool may_be_in_restartable_sequence(const Tracee& thread) {
  if (is_in_syscall(thread.registers())) return false;
  const auto area = rseq_area(thread);
  if (!area) return true;
  if (*area == 0) return false;
  constexpr uint64_t kSequence = 8;  // struct rseq::rseq_cs
  const auto sequence = thread.peek(*area + kSequence);
  return !sequence || *sequence != 0;
}

// Of io_uring(7) or vhost: it never runs the process's code, and has no registers there.
bool is_worker_of_kernel(const user_regs_struct& registers) {
  return registers.rip == 0 && registers.rsp == 0;
}

// The kernel refuses it a clone with EAGAIN, unless its policy is not passed on.
bool is_barred_from_cloning(const Tracee& thread, const CallerTask& task) {
  return ::sched_getscheduler(thread.tid()) == kDeadlinePolicy &&
         std::any_of(task.calls.begin(), task.calls.end(),
                     [](const SystemCall& call) { return call.number == SYS_clone; });
}

std::optional<std::string> barred_call(const Tracee& thread, const CallerTask& task) {
  const SeccompFilters filters = read_seccomp_filters(thread.tid());
  for (const SystemCall& call : task.calls) {
    const SeccompVerdict verdict = filters.verdict(as_filter_sees(call, task.gadget));
    if (verdict == SeccompVerdict::kAllowed) continue;
    return "its seccomp filter " +
           std::string(verdict == SeccompVerdict::kBarred ? "forbids "
                                                          : "may forbid (unreadable) ") +
           system_call_name(call.number);
  }
  for (const SystemCall& call : task.optional_calls) {
    const SeccompCall seen = as_filter_sees(call, task.gadget);
    if (filters.lets_fail(seen)) {
      // glibc ends a process in which the first thread could call rseq(2) and a later one cannot.
      const bool may_fail = call.number != SYS_rseq || rseq_area(thread) == uint64_t{0} ||
                            filters.verdict(seen) == SeccompVerdict::kAllowed;
      if (may_fail) continue;
      return "its seccomp filter forbids " + system_call_name(call.number) +
             ", and glibc ends a process in which a new thread cannot call it";
    }
    return "its seccomp filter does more than refuse " + system_call_name(call.number);
  }
  return std::nullopt;
}

// Whether it could be a caller if there were a place for its frames.
Fitness fitness_but_for_place(const Tracee& thread, const CallerTask& task) {
  if (thread.stop() != Tracee::Stop::kTrap) {
    return {"it is stopped for a signal", thread.stop() == Tracee::Stop::kSignal};
  }
  if (is_worker_of_kernel(thread.registers())) return {"it is a worker of the kernel"};
  if (thread.registers().cs != kUserCode64) return {"it runs 32-bit code", true};
  if (dispatches_syscalls(thread))
    return {"its system calls are dispatched to a handler of its own"};
  if (auto barred = barred_call(thread, task)) return {*std::move(barred)};
  if (is_barred_from_cloning(thread, task)) {
    return {
        "its scheduling policy is SCHED_DEADLINE, with which the kernel lets no thread clone",
        false, 0,
        "give it another policy until then: chrt --other --pid 0 " + std::to_string(thread.tid())};
  }
  if (may_be_in_restartable_sequence(thread)) {
    return {"it may be inside a restartable sequence", true};
  }
  return {};
}

uint64_t room_needed(const CallerTask& task) {
  return stack_needed(kLargestExtendedState, task.chain_length) + kSlack;
}

// How much is lost if the thread returns by itself; lower is better.
int risk_of(const user_regs_struct& registers) {
  constexpr long long kRestartBlock = -516;
  if (!is_in_syscall(registers)) return 1;
  return static_cast<long long>(registers.rax) == kRestartBlock ? 2 : 0;
}

}  // namespace

SeccompCall as_filter_sees(const SystemCall& call, uint64_t gadget) {
  SeccompCall asked;
  asked.number = static_cast<uint32_t>(call.number);
  asked.arguments = call.arguments;
  asked.instruction_pointer = gadget + SyscallGadget::kSyscallSize;
  return asked;
}

bool dispatches_syscalls(const Tracee& thread) {
  SyscallDispatch dispatch{};
  return ask(kGetSyscallDispatch, thread.tid(), dispatch) && dispatch.mode != 0;
}

Fitness fitness_of(const ProcFs& proc, const Tracee& thread, const CallerTask& task,
                   bool owns_main_stack) {
  Fitness fitness = fitness_but_for_place(thread, task);
  if (!fitness.why_not.empty()) return fitness;
  const auto top = find_frame_place(proc, thread, room_needed(task), owns_main_stack);
  if (!top) {
    return {"it is not known to run on its own stack with enough space left", true};
  }
  return {{}, false, *top};
}

std::optional<ChosenCaller> choose_caller(const ProcFs& proc, int process,
                                          std::span<const Tracee> threads, const CallerTask& task,
                                          std::string& why_not) {
  std::vector<size_t> order;
  for (size_t i = 0; i < threads.size(); ++i) {
    if (threads[i].stop() == Tracee::Stop::kTrap && threads[i].process() == process &&
        !is_worker_of_kernel(threads[i].registers())) {
      order.push_back(i);
    }
  }
  why_not = "no thread of it is stopped where it can make a system call";
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return risk_of(threads[a].registers()) < risk_of(threads[b].registers());
  });
  order.resize(std::min(order.size(), kCandidates));
  const bool is_alone = std::count_if(threads.begin(), threads.end(),
                                      [](const Tracee& thread) { return !thread.is_gone(); }) == 1;
  for (const size_t i : order) {
    const Fitness fitness = fitness_of(proc, threads[i], task, is_alone);
    if (fitness.why_not.empty()) return ChosenCaller{i, fitness.frame_top};
    why_not = "thread " + std::to_string(threads[i].tid()) + ": " + fitness.why_not;
  }
  const auto first = std::find_if(threads.begin(), threads.end(), [&](const Tracee& thread) {
    return thread.tid() == process && thread.is_stopped();
  });
  if (first == threads.end()) return std::nullopt;
  const auto top = find_spare_place(proc, *first, room_needed(task));
  for (const size_t i : order) {
    if (!top) break;
    if (fitness_but_for_place(threads[i], task).why_not.empty()) return ChosenCaller{i, *top};
  }
  return std::nullopt;
}

}  // namespace heapsnap
