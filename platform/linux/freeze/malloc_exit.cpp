#include "platform/linux/freeze/malloc_exit.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/alteration.h"
#include "platform/linux/freeze/step_clock.h"
#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/proc/process_status.h"
#include "platform/linux/remote_call/signal_frame.h"
#include "platform/linux/trace/interrupted_syscall.h"
#include "target/address_space.h"

namespace heapsnap {

namespace {

// One call of the allocator takes a few hundred instructions; one that consolidates a large heap
// takes several hundred thousand.
constexpr uint64_t kMostSteps = 400'000;
// A thread that has been outside the allocator's code for this long copies or clears memory for it:
// nothing of the arena is half done then. Or the return address was a stale one.
constexpr uint64_t kMostStepsOutside = 4096;
// Where steps have to wait: most of those are of stale addresses.
constexpr uint64_t kMostWaitingStepsOutside = 1024;
// When the time has run out or steps have to wait, this is long enough: the wrapper of a system
// call takes less. Each thread may take as many steps, however long others took.
constexpr uint64_t kLeastStepsOutside = 128;
// A call that takes longer than this walks long lists (malloc_consolidate()), and may take a
// million times as many steps. From here on it runs instead.
constexpr uint64_t kStepsBeforeRun = 4096;
// Slices that end outside the allocator's code; the deadline limits the others.
constexpr int kMostSlicesOutside = 100;
constexpr std::chrono::microseconds kSlice{20};
// A call that takes long gets longer slices now and then: this share of the time that it has taken.
// The short ones between them find a gap between short calls: a thread that does nothing but
// allocate is outside at one in fifty of its stops, however long it ran until then. A thread that
// is outside the allocator's code is soon given up, and gets longer slices only.
constexpr uint64_t kSlicesUntilLonger = 32;
constexpr int kSliceShare = 8;
constexpr std::chrono::microseconds kLongestSlice{20'000};
constexpr std::chrono::microseconds kLongestSliceOutside{1000};

// If it has not stopped by then, it is treated like any thread that does not.
constexpr std::chrono::milliseconds kStopSoon{2};

constexpr uint64_t kSyscallInstruction = 0x050f;

// The system calls of the allocator (glibc 2.17 to 2.43).
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

// Whether a futex wait would return at once, since the lock has changed.
bool finds_futex_changed(const user_regs_struct& registers, MemoryReader& memory) {
  const auto word = memory.read_value<uint32_t>(Address(registers.rdi));
  return word && *word != static_cast<uint32_t>(registers.rdx);
}

// Advice that the allocator gives. Other advice might reach memory that the copy shares with the
// target and must not write to (MADV_REMOVE), or what is behind it.
bool is_harmless_advice(const user_regs_struct& registers) {
  constexpr std::array<uint64_t, 4> kAdvice{MADV_DONTNEED, MADV_FREE, MADV_HUGEPAGE,
                                            MADV_NOHUGEPAGE};
  return registers.rax != SYS_madvise ||
         std::find(kAdvice.begin(), kAdvice.end(), registers.rdx) != kAdvice.end();
}

// That memory is not needed any more. malloc_trim(), which says so of thousands of free chunks, one
// after the other, has changed before what it changes, and shrink_heap() does after it (glibc 2.17
// to 2.43): nothing of the arena is half done.
bool is_trim(uint64_t number, const user_regs_struct& registers) {
  return number == SYS_madvise && registers.rdx == MADV_DONTNEED;
}

bool is_vma_naming(const user_regs_struct& registers) {
  constexpr uint64_t kSetVma = 0x53564d41;  // PR_SET_VMA, glibc 2.39 names its mappings
  return registers.rax == SYS_prctl && registers.rdi == kSetVma;
}

// In a system call in which no arena is half changed.
bool is_in_other_call(const user_regs_struct& registers) {
  return is_in_syscall(registers) &&
         (!is_allocator_call(registers.orig_rax) || is_trim(registers.orig_rax, registers));
}

bool is_in_text(const MallocText& text, uint64_t address) {
  return std::any_of(text.begin(), text.end(), [address](const AddressRange& range) {
    return range.contains(Address(address));
  });
}

// ret, with or without a prefix.
bool is_return(uint64_t instruction) {
  constexpr uint64_t kRet = 0xc3;
  constexpr uint64_t kPrefixedRet = 0xc3f2;  // f2, bnd, or f3
  return (instruction & 0xff) == kRet || (instruction & 0xfffe) == kPrefixedRet;
}

// call rel32, or one of the forms of call r/m64.
bool follows_call(MemoryReader& memory, uint64_t address) {
  constexpr uint8_t kCallNear = 0xe8;
  constexpr uint8_t kCallIndirect = 0xff;
  constexpr uint8_t kCallForm = 2;
  constexpr std::array<size_t, 5> kIndirectSizes{2, 3, 4, 6, 7};
  const auto word = memory.read_value<uint64_t>(Address(address - sizeof(uint64_t)));
  if (!word) return false;
  const auto back = [&word](size_t distance) {
    return static_cast<uint8_t>(*word >> ((sizeof(uint64_t) - distance) * 8));
  };
  if (back(5) == kCallNear) return true;
  return std::any_of(kIndirectSizes.begin(), kIndirectSizes.end(), [&](size_t size) {
    return back(size) == kCallIndirect && ((back(size - 1) >> 3) & 7) == kCallForm;
  });
}

// Whether a signal handler that interrupted the allocator is running. If other code than the
// allocator's runs and there is none, no arena is half changed: either a stale address is in the
// frame of a function that has nothing to do with the allocator, or the function copies or clears
// memory, or asks for the number of processors.
bool interrupts(const MallocText& text, const user_regs_struct& registers, MemoryReader& memory) {
  return find_handler_return(
             registers.rsp, std::nullopt, kNearStack,
             [&text](uint64_t at) { return is_in_text(text, at); }, memory)
      .has_value();
}

// Return addresses on the stack that lead out of the allocator, with an int3 at each while this
// exists. The code is the child's own copy of private pages.
class Returns {
 public:
  Returns(const MallocText& text, SnapshotChild& child, MemoryReader& memory, uint64_t stack)
      : child_(child) {
    const AddressSpace space(ProcFs().maps(child.pid()));
    std::array<uint64_t, kReturnStack / sizeof(uint64_t)> words{};
    const size_t bytes = memory.read(Address(stack), std::as_writable_bytes(std::span(words)));
    for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) {
      const Mapping* const mapping = space.find(Address(words[i]));
      if (mapping == nullptr || mapping->shared || !mapping->executable || is_known(words[i]) ||
          is_in_text(text, words[i]) || !follows_call(memory, words[i])) {
        continue;
      }
      const auto before = child_.replace_byte(words[i], kInt3);
      if (before) places_.push_back({words[i], stack + i * sizeof(uint64_t), *before});
    }
  }
  Returns(const Returns&) = delete;
  Returns& operator=(const Returns&) = delete;
  ~Returns() {
    for (const Place& place : places_) child_.replace_byte(place.address, place.before);
  }

  bool empty() const { return places_.empty(); }

  // Whether the int3 that the child executed is one of these; if so, moves the child back to it.
  bool step_back(user_regs_struct& registers, std::vector<std::byte> state) {
    registers.rip -= 1;
    return is_known(registers.rip) && child_.set_context(registers, state);
  }

 private:
  struct Place {
    uint64_t address = 0;
    uint64_t slot = 0;
    uint8_t before = 0;
  };
  static constexpr uint8_t kInt3 = 0xcc;
  static constexpr size_t kReturnStack = 0x800;

  bool is_known(uint64_t address) const {
    return std::any_of(places_.begin(), places_.end(),
                       [address](const Place& place) { return place.address == address; });
  }

  SnapshotChild& child_;
  std::vector<Place> places_;
};

// Lets the child run on inside the allocator, until a return leaves it or a system call is about to
// be made. Returns false if it ran into something else. Otherwise it is stopped somewhere on that
// way: after `deadline` it is examined again.
bool run_towards_exit(const MallocText& text, SnapshotChild& child, MemoryReader& memory,
                      const user_regs_struct& from, TraceClock::time_point deadline) {
  Returns returns(text, child, memory, from.rsp);
  if (returns.empty()) return true;  // by steps, as before
  const SnapshotChild::RunEnd end = child.run(deadline);
  if (end != SnapshotChild::RunEnd::kTrap) return end != SnapshotChild::RunEnd::kFault;
  auto registers = child.registers();
  return registers && returns.step_back(*registers, child.extended_state());
}

enum class StepEnd { kOut, kWaits, kStuck };

// How it ends for a context that faults, makes a system call that the allocator does not make, or
// has no time left to leave what the allocator called.
StepEnd end_of_unfinished(const MallocText& text, const user_regs_struct& registers,
                          MemoryReader& memory) {
  const bool is_inside = is_in_text(text, registers.rip) || interrupts(text, registers, memory);
  return is_inside ? StepEnd::kStuck : StepEnd::kOut;
}

// If a handler that interrupted the allocator is running, the context continues as if it returned.
void leave_handler(const MallocText& text, ThreadContext& context, MemoryReader& memory) {
  user_regs_struct& registers = context.registers;
  if (is_in_text(text, registers.rip)) return;
  const auto back = find_handler_return(
      registers.rsp, context.signal_mask, kNearStack,
      [&text](uint64_t at) { return is_in_text(text, at); }, memory);
  if (!back) return;
  registers.rip = back->code;
  registers.rsp = back->stack;
  registers.orig_rax = ~uint64_t{0};  // it is in no system call
}

// Steps the child, which has taken on `context`, until it is out of the allocator.
StepEnd step_out(const MallocText& text, SnapshotChild& child, MemoryReader& memory,
                 ThreadContext& context, StepClock& clock, uint64_t& steps, std::string& why) {
  leave_handler(text, context, memory);
  why = "could not be taken up";
  if (!child.set_context(context.registers, context.extended_state)) return StepEnd::kStuck;
  uint64_t outside = 0;
  bool is_returning = false;  // the previous instruction, in the allocator's code, was a return
  for (uint64_t count = 0; count < kMostSteps; ++count) {
    const auto registers = child.registers();
    if (!registers) return StepEnd::kStuck;
    context.registers = *registers;
    outside = is_in_text(text, registers->rip) ? 0 : outside + 1;
    check_end();
    const uint64_t most_outside = clock.steps_wait() ? kMostWaitingStepsOutside : kMostStepsOutside;
    if (outside > most_outside || !is_inside_malloc(text, *registers, memory)) {
      return StepEnd::kOut;
    }
    if (outside > kLeastStepsOutside && clock.steps_wait() &&
        !interrupts(text, *registers, memory)) {
      return StepEnd::kOut;
    }
    // Its frame may hold stale return addresses. A jump out of the code is not a return: free()
    // ends with one to munmap() (2.31), which is half of the call.
    if (is_returning && outside == 1 && !interrupts(text, *registers, memory)) return StepEnd::kOut;
    const auto instruction = child.peek(registers->rip);
    is_returning = outside == 0 && instruction && is_return(*instruction);
    const bool is_at_call = instruction && (*instruction & 0xffff) == kSyscallInstruction;
    if (is_at_call) {
      if (is_trim(registers->rax, *registers)) return StepEnd::kOut;
      if (registers->rax == SYS_futex && !is_futex_wake(*registers)) {
        // Never really made: nothing would wake the child.
        if (!finds_futex_changed(*registers, memory)) return StepEnd::kWaits;
        context.registers.rax = static_cast<unsigned long long>(-EAGAIN);
        context.registers.rip += 2;
        context.extended_state = child.extended_state();
        if (!child.set_context(context.registers, context.extended_state)) return StepEnd::kStuck;
        continue;
      }
      if ((!is_allocator_call(registers->rax) && !is_futex_wake(*registers) &&
           !is_vma_naming(*registers) && registers->rax != SYS_rt_sigreturn) ||
          !is_harmless_advice(*registers)) {
        why = "was about to make system call " + std::to_string(registers->rax);
        return end_of_unfinished(text, *registers, memory);
      }
    }
    const bool runs = count >= kStepsBeforeRun && outside == 0 && !is_at_call;
    if (runs) {
      clock.leave_steps();
    } else {
      clock.tick();
    }
    why = "was still there after " + std::to_string(StepClock::kMostTime.count()) + " s";
    if (clock.has_run_out() && count > kLeastStepsOutside) {
      if (outside == 0) return StepEnd::kStuck;
      if (outside > kLeastStepsOutside) return end_of_unfinished(text, *registers, memory);
    }
    const bool has_gone_on =
        runs ? run_towards_exit(text, child, memory, *registers, clock.next_look()) : child.step();
    if (!has_gone_on) {
      why = runs ? "ran into a fault behind that" : "ran into a fault";
      return end_of_unfinished(text, *registers, memory);
    }
    ++steps;
  }
  why = "was still there after " + std::to_string(kMostSteps) + " steps";
  return StepEnd::kStuck;
}

// Whether it can run without ending or stopping: it is not at its exit, nor about to get a signal
// that does that. One that is ignored or has a handler is delivered as it would be anyway.
bool may_run_on(const Tracee& tracee) {
  if (tracee.stop() == Tracee::Stop::kTrap) return true;
  if (tracee.stop() != Tracee::Stop::kSignal) return false;
  constexpr std::array<int, 4> kIgnored{SIGCHLD, SIGCONT, SIGURG, SIGWINCH};
  const int signal = tracee.signal();
  if (std::find(kIgnored.begin(), kIgnored.end(), signal) != kIgnored.end()) return true;
  const auto status = read_process_status(ProcFs(), tracee.tid());
  const uint64_t harmless = status ? status->caught_signals | status->ignored_signals : 0;
  return ((harmless >> (signal - 1)) & 1) != 0;
}

}  // namespace

bool is_inside_malloc(const MallocText& text, const user_regs_struct& registers,
                      std::span<const uint64_t> near_stack) {
  if (is_in_text(text, registers.rip)) return true;
  if (is_in_other_call(registers)) return false;
  return std::any_of(near_stack.begin(), near_stack.end(),
                     [&text](uint64_t word) { return is_in_text(text, word); });
}

bool is_inside_malloc(const MallocText& text, const user_regs_struct& registers,
                      MemoryReader& memory) {
  if (text.empty()) return false;
  if (is_in_text(text, registers.rip)) return true;
  if (is_in_other_call(registers)) return false;
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
    inside.push_back({tracee.tid(), restarted_registers(tracee.registers()),
                      tracee.extended_state(), tracee.signal_mask().value_or(0)});
  }
  return inside;
}

std::vector<BlockingThread> threads_that_block_signals(const PtraceSession& session,
                                                       std::span<const ThreadContext> inside) {
  std::vector<BlockingThread> blocking;
  for (const Tracee& tracee : session.tracees()) {
    const auto is_this = [&](const ThreadContext& each) { return each.tid == tracee.tid(); };
    if (!tracee.is_stopped() || std::any_of(inside.begin(), inside.end(), is_this)) continue;
    const uint64_t mask = tracee.signal_mask().value_or(0);
    if (mask != 0) blocking.push_back({tracee.registers(), mask});
  }
  return blocking;
}

size_t handlers_inside_malloc(const MallocText& text, std::span<const BlockingThread> threads,
                              const AddressSpace& space, MemoryReader& memory) {
  if (text.empty()) return 0;
  const auto has_interrupted_it = [&](const BlockingThread& thread) {
    const auto interrupted =
        interrupted_by_handlers(thread.registers, thread.signal_mask, space, memory);
    return std::any_of(interrupted.begin(), interrupted.end(), [&](const user_regs_struct& each) {
      return is_inside_malloc(text, each, memory);
    });
  };
  return static_cast<size_t>(std::count_if(threads.begin(), threads.end(), has_interrupted_it));
}

MallocExit step_out_in_child(const MallocText& text, SnapshotChild& child, MemoryReader& memory,
                             std::vector<ThreadContext>& inside) {
  MallocExit exit;
  StepClock clock(child);
  std::vector<ThreadContext*> left;
  for (ThreadContext& context : inside) left.push_back(&context);
  // A thread that waits for a lock gets it once its holder is out: as many rounds as there are
  // threads suffice, and a round without progress is the last.
  while (!left.empty()) {
    std::vector<ThreadContext*> waiting;
    for (ThreadContext* context : left) {
      std::string why;
      const StepEnd end = step_out(text, child, memory, *context, clock, exit.steps, why);
      context->extended_state = child.extended_state();
      if (end == StepEnd::kWaits) waiting.push_back(context);
      if (end == StepEnd::kStuck) {
        exit.still_inside.push_back({context->tid, context->registers.rip, std::move(why)});
      }
    }
    if (waiting.size() == left.size()) break;
    left = std::move(waiting);
  }
  return exit;
}

MallocExit run_out_in_target(const MallocText& text, PtraceSession& session, MemoryReader& memory,
                             PriorityInheritance& inheritance, TraceClock::time_point until,
                             TraceClock::time_point deadline) {
  MallocExit exit;
  for (size_t i = 0; i < session.tracees().size(); ++i) {
    const auto begin = TraceClock::now();
    int outside = 0;
    bool inside = true;
    bool was_outside = false;
    uint64_t slices = 0;
    while (true) {
      Tracee& tracee = session.tracees()[i];
      inside = tracee.is_stopped() && is_inside_malloc(text, tracee.registers(), memory);
      const auto now = TraceClock::now();
      // One that goes on outside is known to be out only after all of those slices.
      const bool has_run_out = now >= until + outside * kLongestSliceOutside;
      if (!inside || has_run_out || !may_run_on(tracee)) break;
      if (is_in_text(text, tracee.registers().rip)) {
        outside = 0;
      } else if (tracee.stop() != Tracee::Stop::kSignal) {  // its slice was shorter
        ++outside;
      }
      was_outside = outside > kMostSlicesOutside && !interrupts(text, tracee.registers(), memory);
      if (outside > kMostSlicesOutside) break;
      const auto elapsed = std::chrono::duration_cast<std::chrono::microseconds>(now - begin);
      check_end();
      inheritance.raise(tracee.tid());
      const auto longest = outside > 0                              ? kLongestSliceOutside
                           : (slices + 1) % kSlicesUntilLonger == 0 ? kLongestSlice
                                                                    : kSlice;
      const auto slice = std::clamp(elapsed / kSliceShare, kSlice, longest);
      ++exit.steps;
      ++slices;
      if (session.let_run(tracee, slice, std::min(deadline, now + slice + kStopSoon))) continue;
      session.stop_new(deadline);
    }
    if (inside && !was_outside) {
      const Tracee& tracee = session.tracees()[i];
      exit.still_inside.push_back({tracee.tid(), tracee.registers().rip,
                                   "was still there after " + std::to_string(slices) + " slices"});
    }
    inheritance.end();
    if (slices != 0) session.stop_new(deadline);
  }
  return exit;
}

}  // namespace heapsnap
