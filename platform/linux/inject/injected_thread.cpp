#include "platform/linux/inject/injected_thread.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/alteration.h"
#include "base/error.h"
#include "base/page.h"
#include "platform/linux/inject/injected_code.h"
#include "platform/linux/inject/injected_mapping.h"
#include "platform/linux/inject/sole_thread_hold.h"
#include "platform/linux/inject/thread_calls.h"
#include "platform/linux/inject/thread_refusal.h"
#include "platform/linux/proc/address_room.h"
#include "platform/linux/proc/cgroup_limits.h"
#include "platform/linux/proc/kernel_files.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/memory_writer.h"
#include "platform/linux/proc/process_status.h"
#include "platform/linux/proc/seccomp_filter.h"
#include "platform/linux/proc/target_refusal.h"
#include "platform/linux/proc/task_room.h"
#include "platform/linux/remote_call/caller_stop.h"
#include "platform/linux/self/nap.h"
#include "platform/linux/self/realtime_limit.h"
#include "platform/linux/self/realtime_priority.h"
#include "platform/linux/self/task_priority.h"
#include "platform/linux/trace/late_tracees.h"
#include "platform/linux/trace/tracer_thread.h"

namespace heapsnap {

namespace {

// How long to wait for the worker when heapsnap is asked to end.
constexpr std::chrono::seconds kPatienceAtEnd{3};
constexpr std::chrono::milliseconds kCallerDeadline{2000};  // for which a caller is needed

// Without CLONE_FS: the two have their own root and working directory. The kernel refuses
// setns(CLONE_NEWNS) to a thread that shares its own with another.
constexpr uint64_t kThreadFlags = CLONE_VM | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                                  CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID |
                                  CLONE_CHILD_CLEARTID;
constexpr uint64_t kTasksAtOnce = 2;  // the bootstrap and the worker

class Injection {
 public:
  Injection(const ProcFs& proc, int pid, const ThreadControlBlockLayout& layout,
            const InjectedWork& work, MemoryReader& memory)
      : proc_(proc),
        pid_(pid),
        layout_(layout),
        work_(work),
        memory_(memory),
        writer_(proc, proc.live_tid(pid).value_or(pid)),
        mapping_(layout, *work.calls, work.attachment.size()) {
    // A leader that has exited has no memory and no files, even while other threads are alive.
    const int tid = proc.live_tid(pid).value_or(pid);
    const AddressSpace space(proc.maps(tid));
    mappings_ = space.mappings().size();
    const auto gadget = find_syscall_gadget(space, MappedFiles(proc, tid), memory_);
    if (!gadget) refuse("its code contains no usable syscall instruction", "");
    gadget_ = *gadget;
  }

  InjectionResult run() {
    check_state();
    tracer_.run([this] {
      const RealtimePriority priority;
      PriorityInheritance inheritance;
      if (counts_on_one_thread()) prepare_for_threads(inheritance);
      start(inheritance);
    });
    wait_for_end();
    read_results();
    tracer_.run([this] {
      const Repair repair;
      const RealtimePriority priority;
      PriorityInheritance inheritance;
      clean_up(inheritance);
    });
    if (!handed_over_) refuse("its memory could not be written", "try again");
    check_end();
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why, const std::string& remedy) const {
    throw Error(ErrorKind::kUnsupported,
                "cannot create a thread in process " + std::to_string(pid_), why, remedy);
  }

  void check_state() {
    const int tid = proc_.live_tid(pid_).value_or(pid_);
    const auto status = parse_process_status(proc_.read(tid, "status"));
    if (status && !status->namespace_pids.empty()) {
      named_tid_ = tid;
      name_inside_ = status->namespace_pids.back();
    }
    if (status && status->shadow_stack) {
      refuse("it has a shadow stack, which an injected call would violate",
             "start it with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off");
    }
    if (status && status->state == 'T') {
      refuse("it is stopped (SIGSTOP), and a new thread would not run",
             "continue it first: kill -CONT " + std::to_string(pid_));
    }
    check_frozen();
    const std::string limits = proc_.try_read(tid, "limits").value_or(std::string());
    const uint64_t mapped = mapping_.size() + default_thread_stack(limits) + work_.address_space;
    if (const auto no_room = find_address_refusal(proc_.read(tid, "status"), limits, mapped)) {
      refuse("it could run out of memory: " + no_room->why,
             "raise the limit: prlimit --pid " + std::to_string(pid_) + " " + no_room->options);
    }
    constexpr const char* kMostMappings = "/proc/sys/vm/max_map_count";
    const std::string most = kernel_text_or_empty(kMostMappings);
    if (const auto no_mapping = find_mapping_refusal(mappings_, most)) {
      refuse("it could run out of memory: " + *no_mapping,
             "raise the limit: sysctl -w vm.max_map_count=" + std::to_string(mappings_ * 2));
    }
    if (const auto no_task = find_task_refusal(tid, kTasksAtOnce)) {
      refuse("it might then be unable to create threads itself: " + no_task->why, kMoreTasks);
    }
  }

  void check_frozen() const {
    const CgroupLimits limits = read_cgroup_limits(pid_, KernelFiles{});
    if (!limits.frozen) return;
    refuse("its control group is frozen (docker pause), and a new thread would not run",
           thaw_remedy(limits));
  }

  CallerTask first_task() const {
    CallerTask task;
    task.gadget = gadget_.syscall_ret;
    task.calls = {map_call(), map_code_call(), clone_call(0, kThreadFlags | CLONE_FS, false)};
    task.last_resort = work_.last_resort;
    add_thread_calls(task);
    task.calls.insert(task.calls.end(), work_.system_calls.begin(), work_.system_calls.end());
    task.optional_calls.insert(task.optional_calls.end(), work_.optional_system_calls.begin(),
                               work_.optional_system_calls.end());
    return task;
  }

  SystemCall map_call() const {
    return {SYS_mmap,
            {0, mapping_.size(), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, ~uint64_t{0}, 0}};
  }
  // Never writable and executable at once: what forbids such pages allows these.
  SystemCall map_code_call() const {
    const uint64_t fixed = mapping_.begin().is_null() ? 0 : MAP_FIXED;
    return {SYS_mmap,
            {mapping_.begin().value(), InjectedMapping::kCodeSize, PROT_READ | PROT_EXEC,
             MAP_PRIVATE | MAP_ANONYMOUS | fixed, ~uint64_t{0}, 0}};
  }
  SystemCall unmap_call() const {
    return {SYS_munmap, {mapping_.begin().value(), mapping_.size(), 0, 0, 0, 0}};
  }
  // Some seccomp filters allow the flags of pthread_create(3) and no others.
  uint64_t flags_for(const StoppedCaller& caller) {
    const SeccompFilters filters = read_seccomp_filters(caller.tid());
    const auto is_barred = [&](const SystemCall& call) {
      return filters.verdict(as_filter_sees(call, gadget_.syscall_ret)) == SeccompVerdict::kBarred;
    };
    bars_clone3_ = is_barred({SYS_clone3, {}});
    return is_barred({SYS_clone, {kThreadFlags}}) ? kThreadFlags | CLONE_FS : kThreadFlags;
  }
  SystemCall clone_call(uint64_t stack, uint64_t flags, bool holds_caller) const {
    const uint64_t thread_pointer = mapping_.thread_pointer().value();
    const uint64_t tid_word = thread_pointer + caller_block_.tid_offset;
    return {SYS_clone,
            {flags | (holds_caller ? uint64_t{CLONE_VFORK} : 0), stack, tid_word, tid_word,
             thread_pointer, 0}};
  }

  long must_call(StoppedCaller& thread, const SystemCall& call, const char* what) {
    const auto result = thread.call(call, deadline_);
    if (!result) {
      check_frozen();
      refuse(std::string(what) + " did not finish", "try again");
    }
    if (*result < 0 && *result > -4096) {
      give_up(thread);
      refuse(std::string(what) + " was refused: " + errno_text(static_cast<int>(-*result)), "");
    }
    return *result;
  }

  // Whether it has never had a second thread, as far as its C library knows. If the library does
  // not keep that in one place, a process that has one thread now counts as one that never had two.
  bool counts_on_one_thread() {
    return layout_.single_threaded.is_null() ||
           memory_.read_value<uint8_t>(layout_.single_threaded).value_or(1) != 0;
  }

  // Makes the C library allow for other threads before there are any.
  void prepare_for_threads(PriorityInheritance& inheritance) {
    if (layout_.single_threaded.is_null()) return;
    const CallerTask task = first_task();
    CallerStop caller(proc_, pid_, task, memory_, inheritance);
    if (caller.is_only_thread()) {
      caller.leave(task, layout_.relies_on_being_alone);
      deadline_ = TraceClock::now() + kCallerDeadline;
      read_caller_block(caller.thread());
      have_it_lock(caller.thread());
      StoppedCaller thread(caller.thread(), gadget_, caller.frame_top());
      make_bench(thread);
      const user_regs_struct& like = caller.thread().registers();
      clone(thread, furnish(mapping_.furnish_switch(caller_block_, like, gadget_)), true);
      Tracee clone(pid_, thread.clone_pid());
      thread.give_back([&] { let_go(clone); });
    }
    release(caller);
    // The next clone uses the same memory.
    while (!mapping_.begin().is_null() && !is_word_zero(bootstrap_tid())) {
      if (TraceClock::now() >= deadline_) refuse("a clone of it did not finish", "");
      nap_beside_late_tracees(std::chrono::microseconds(50));
    }
  }

  void release(CallerStop& caller) {
    caller.release();
    for (const auto pause : caller.pauses()) result_.stolen.push_back({caller.tid(), pause});
  }

  void start(PriorityInheritance& inheritance) {
    if (!start_from(inheritance, true)) start_from(inheritance, false);
  }

  // If `may_hold`, an only thread stays stopped until the work is done. Returns false, with nothing
  // done, if it could not be found outside of what the worker needs.
  bool start_from(PriorityInheritance& inheritance, bool may_hold) {
    const CallerTask task = first_task();
    CallerStop caller(proc_, pid_, task, memory_, inheritance);
    const bool waits_for_clone = caller.is_only_thread() && counts_on_one_thread();
    if (waits_for_clone) {
      caller.leave(task, layout_.relies_on_being_alone);
    } else if (may_hold && caller.is_only_thread() &&
               !caller.try_leave(task, layout_.relies_on_being_alone)) {
      release(caller);
      return false;
    }
    bool is_held = may_hold && caller.is_only_thread();
    read_caller_block(caller.thread());
    deadline_ = TraceClock::now() + kCallerDeadline;
    if (waits_for_clone) have_it_lock(caller.thread());
    {
      StoppedCaller thread(caller.thread(), gadget_, caller.frame_top());
      if (mapping_.begin().is_null()) make_bench(thread);
      const user_regs_struct& like = caller.thread().registers();
      clone(thread, furnish(mapping_.furnish(caller_block_, like, gadget_)), waits_for_clone);
      Tracee bootstrap(pid_, thread.clone_pid());
      if (waits_for_clone) {
        hand_over();
        is_held = thread.give_back([&] { let_go(bootstrap); }) && is_held;
      } else {
        is_held = thread.give_back() && is_held;
        if (!is_held) caller.release();
        hand_over();
        let_go(bootstrap);
      }
    }
    if (is_held) hold(caller.tid(), inheritance);
    release(caller);
    return true;
  }

  // It waits for the worker, which therefore gets the priority that it was lent.
  void hold(int tid, PriorityInheritance& inheritance) {
    SoleThreadHold hold(proc_, pid_, tid, deadline_);
    while (hold.bears_another_look(TraceClock::now())) {
      if (const auto worker = hold.at_work()) inheritance.raise(*worker);
      const auto block = memory_.read_value<ThreadBlock>(mapping_.block());
      if (!block || has_ended(*block)) return;
      nap_beside_late_tracees(std::chrono::microseconds(50));
    }
  }

  // Each thread of glibc has a word that tells it whether to lock: malloc's fastbins use it up to
  // 2.36, all else up to 2.34. pthread_create sets it for the thread that calls it, and later
  // versions still do. The process's only thread, stopped outside malloc, is not so for long.
  void have_it_lock(const Tracee& only_thread) {
    constexpr uint64_t kMultipleThreads = 0x18;
    writer_.write_value(Address(only_thread.registers().fs_base) + kMultipleThreads, uint32_t{1});
  }

  void make_bench(StoppedCaller& thread) {
    mapping_.set_begin(Address(static_cast<uint64_t>(must_call(thread, map_call(), "mmap"))));
    must_call(thread, map_code_call(), "mmap of executable memory");
  }

  void clone(StoppedCaller& thread, uint64_t stack, bool holds_caller) {
    const auto outcome =
        thread.clone(clone_call(stack, flags_for(thread), holds_caller), deadline_);
    if (outcome == StoppedCaller::Outcome::kCloned) return;
    if (outcome != StoppedCaller::Outcome::kRefused) refuse("clone did not succeed", "try again");
    give_up(thread);
    const ThreadRefusal refusal = clone_refusal(proc_, pid_, thread.tid(), thread.refusal());
    refuse(refusal.why, refusal.remedy);
  }

  // The clone is stopped at its very beginning; from here on it runs by itself.
  void let_go(Tracee& bootstrap) const {
    // The only thread of a process waits for it. The worker does not inherit this.
    if (may_be_realtime(bootstrap.tid())) {
      set_policy(bootstrap.tid(), SCHED_FIFO | SCHED_RESET_ON_FORK, 1);
    }
    if (bootstrap.wait(deadline_)) {
      if (bootstrap.detach()) return;
      // Killed while stopped. An execve in another thread waits until we no longer trace this one.
      bootstrap.forget_stop();
    }
    if (!bootstrap.wait(deadline_)) detach_when_stopped({bootstrap});
  }

  // Undoes what was done before the clone was refused.
  void give_up(StoppedCaller& thread) {
    if (!mapping_.begin().is_null()) thread.call(unmap_call(), deadline_);
  }

  void read_caller_block(const Tracee& caller) {
    const Address thread_pointer(caller.registers().fs_base);
    std::array<std::byte, kPage> bytes;
    const size_t count = memory_.read(thread_pointer, bytes);
    const auto parsed =
        parse_control_block(std::span(bytes).first(count), tid_inside(caller.tid()));
    if (!parsed) refuse("its thread control blocks do not have the layout of a known glibc", "");
    caller_block_ = *parsed;
    caller_block_.thread_arena = find_thread_arena(memory_, layout_, thread_pointer);
    if (!layout_.rseq_offset) return;
    caller_block_.rseq_area.resize(32);
    if (!memory_.read_exact(thread_pointer + static_cast<uint64_t>(*layout_.rseq_offset),
                            caller_block_.rseq_area)) {
      caller_block_.rseq_area.clear();
    }
  }

  // The tid of a thread in the pid namespace of the target.
  int tid_inside(int tid) const {
    if (tid == named_tid_) return name_inside_;
    const auto status = read_process_status(proc_, tid);
    return status && !status->namespace_pids.empty() ? status->namespace_pids.back() : tid;
  }

  // The worker gets the calls when all the data for them is there. That is not worth keeping the
  // caller stopped: without the calls, the two threads do nothing and exit.
  void hand_over() {
    handed_over_ = writer_.write(mapping_.attachment(), work_.attachment) &&
                   writer_.write_value(mapping_.worker_calls_word(), mapping_.worker_calls());
  }

  // Writes everything into the mapping. Returns the stack pointer for the clone.
  uint64_t furnish(const InjectedMapping::Contents& contents) {
    for (const auto& [address, bytes] : contents.pieces) {
      if (!writer_.write(address, bytes)) {
        refuse("its memory could not be written: " + errno_text(errno), "");
      }
    }
    return contents.clone_stack;
  }

  // Where the clone's tid is. The kernel clears it last of all when a thread ends.
  Address bootstrap_tid() const { return mapping_.thread_pointer() + caller_block_.tid_offset; }
  bool is_word_zero(Address word) { return memory_.read_value<uint32_t>(word).value_or(1) == 0; }

  bool has_ended(const ThreadBlock& block) {
    return block.worker_done != 0 && is_word_zero(bootstrap_tid()) &&
           is_word_zero(Address(block.worker) + caller_block_.tid_offset);
  }

  // Whether the worker is gone and had not finished, as last seen in `block`.
  bool has_been_ended(const ThreadBlock& block) {
    if (block.worker_started == 0 || block.worker_done != 0) return false;
    if (!is_word_zero(Address(block.worker) + caller_block_.tid_offset)) return false;
    const auto now = memory_.read_value<ThreadBlock>(mapping_.block());
    return now && now->worker_done == 0;
  }

  // Waits until both threads are gone.
  void wait_for_end() {
    const auto deadline = TraceClock::now() + work_.patience;
    const auto asked_deadline = std::min(deadline, TraceClock::now() + kPatienceAtEnd);
    std::chrono::microseconds pause{50};
    while (true) {
      const auto block = memory_.read_value<ThreadBlock>(mapping_.block());
      if (!block) fail_gone();
      if (has_ended(*block)) return;
      if (is_word_zero(bootstrap_tid()) && block->worker_started == 0) {
        const auto refusal = memory_.read_value<uint64_t>(mapping_.creation_result());
        if (refusal && static_cast<int>(*refusal) != 0) fail_to_create(static_cast<int>(*refusal));
      }
      if (!proc_.live_tid(pid_)) fail_gone();
      if (has_been_ended(*block)) fail_ended();
      if (TraceClock::now() >= (is_end_asked() ? asked_deadline : deadline))
        fail_late(block->worker_started != 0);
      nap(pause);
      pause = std::min<std::chrono::microseconds>(pause * 5 / 4, std::chrono::milliseconds(5));
    }
  }

  [[noreturn]] void fail_gone() const {
    throw Error(ErrorKind::kNoProcess, "process " + std::to_string(pid_),
                "it ended or executed another program while the thread ran in it", kFindSuccessor);
  }

  [[noreturn]] void fail_to_create(int error) {
    tracer_.run([this] {
      PriorityInheritance inheritance;
      clean_up(inheritance);
    });
    const ThreadRefusal refusal = creation_refusal(pid_, error, bars_clone3_);
    refuse(refusal.why, refusal.remedy);
  }

  [[noreturn]] void fail_ended() const {
    refuse("the thread created in it was ended before it had finished: what it locked stays locked",
           "see what it waits for: ps -L -o tid,stat,wchan:30,comm -p " + std::to_string(pid_));
  }

  [[noreturn]] void fail_late(bool started) const {
    refuse(std::string("the thread created in it ") +
               (started ? "has not finished" : "has not started") + " after " +
               std::to_string(work_.patience.count() / 1000) +
               " s. It waits for something in the target, perhaps a lock of the loader; it will "
               "finish its work and exit by itself",
           "check what the other threads are doing, then try again");
  }

  void read_results() {
    const CallList::Place place = mapping_.worker_place();
    for (CallList::Step step = 0; step < work_.calls->step_count(); ++step) {
      const auto value = memory_.read_value<uint64_t>(work_.calls->result_at(place, step));
      if (!value) fail_gone();
      result_.results.push_back(*value);
    }
    for (CallList::Data data = 0; data < work_.calls->data_count(); ++data) {
      std::vector<char> text(work_.calls->data_size(data));
      memory_.read(work_.calls->data_at(place, data), std::as_writable_bytes(std::span(text)));
      result_.texts.push_back(std::move(text));
    }
  }

  void clean_up(PriorityInheritance& inheritance) {
    CallerTask task;
    task.gadget = gadget_.syscall_ret;
    task.calls = {unmap_call(), {SYS_rt_sigreturn, {}}};
    try {
      CallerStop caller(proc_, pid_, task, memory_, inheritance);
      {
        StoppedCaller thread(caller.thread(), gadget_, caller.frame_top());
        const auto gone = thread.call(task.calls.front(), TraceClock::now() + kCallerDeadline);
        if (gone != 0) note_left();
        thread.give_back();
      }
      release(caller);
    } catch (const Error&) {
      note_left();
    }
  }

  void note_left() {
    result_.notes.push_back(std::to_string(mapping_.size() >> 10) +
                            " KiB of address space could not be unmapped and stay unused");
  }

  ProcFs proc_;
  int pid_;
  const ThreadControlBlockLayout& layout_;
  const InjectedWork& work_;
  MemoryReader& memory_;
  MemoryWriter writer_;
  InjectedMapping mapping_;
  SyscallGadget gadget_;
  CallerControlBlock caller_block_;
  size_t mappings_ = 0;
  // The main thread's tid here and in its pid namespace: read before it is stopped.
  int named_tid_ = 0;
  int name_inside_ = 0;
  bool handed_over_ = false;
  bool bars_clone3_ = false;  // a filter, to the thread that was cloned
  TraceClock::time_point deadline_;
  InjectionResult result_;
  TracerThread tracer_;
};

}  // namespace

InjectionResult run_on_injected_thread(const ProcFs& proc, int pid,
                                       const ThreadControlBlockLayout& layout,
                                       const InjectedWork& work, MemoryReader& memory) {
  return Injection(proc, pid, layout, work, memory).run();
}

}  // namespace heapsnap
