// A running process that is about to be changed, as the program that it was in the beginning.
//
// It may end, or execute another program, at any moment, also between two looks at it. What was
// learnt of the one program must not be used on the other: addresses would lead anywhere. So its
// memory is opened before anything else is looked at, and read by that descriptor only, which stays
// with the memory of that time. Where threads have been stopped, one read tells whether they still
// run that program; as long as they stand it cannot change.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/alteration.h"
#include "base/error.h"
#include "platform/linux/freeze/freeze_notes.h"
#include "platform/linux/inject/left_over_worker.h"
#include "platform/linux/proc/ask_again.h"
#include "platform/linux/proc/process_memory.h"
#include "platform/linux/trace/target_lock.h"
#include "target/target.h"

namespace heapsnap {

class RunningProgram final : public Target {
 public:
  // Throws as open_running_process() does.
  explicit RunningProgram(int pid);

  // Reaps copies of it that a heapsnap left behind because it was killed, or could not reap them.
  // Where that is refused they stay.
  void tidy_up();
  bool has_copies() const;
  // Lists mappings and threads again. Throws Error{kNoProcess} when it is another program.
  void look_again();
  // Throws Error{kNoProcess} when it has ended, or executed another program. One that is just
  // being ended is waited for.
  void check_runs();

  const Process& process() const override { return view_->process(); }
  const AddressSpace& address_space() const override { return view_->address_space(); }
  const std::vector<Thread>& threads() const override { return view_->threads(); }
  // Reading throws Error{kNoProcess} when the program is gone.
  MemoryReader& memory() override { return memory_; }
  PageResidency& residency() override { return view_->residency(); }
  std::optional<MappedFile> open_file(const Mapping& mapping) override {
    return view_->open_file(mapping);
  }

 private:
  bool is_dying() const;

  ProcessMemory memory_;
  std::unique_ptr<Target> view_;
};

// How long threads of a heapsnap that was killed are waited for.
inline constexpr std::chrono::seconds kLeftOverPatience{60};

// Gives what `work` gives, while no other heapsnap changes the process. `work` may fail in many
// ways when the program ends meanwhile: no thread stops, memory cannot be written. Then
// Error{kNoProcess} is thrown instead. A copy that `work` had to leave as a zombie, because a
// debugger took the process in between, is reaped afterwards. If it remains, the error's remark
// says so, or the result's `call.notes`.
template <typename Work>
auto work_on(int pid, Work work) {
  const ProcFs proc;
  // The program is not looked at before it is locked.
  struct Locked {
    Locked(const ProcFs& proc, int pid) : lock(proc, pid), program(pid) { program.tidy_up(); }
    TargetLock lock;
    RunningProgram program;
  };
  const auto opened = ask_again(proc, pid, [&] { return std::make_unique<Locked>(proc, pid); });
  RunningProgram& program = opened->program;
  try {
    await_left_over_workers(proc, pid, program.memory(), kLeftOverPatience);
    program.look_again();
    const Alteration alteration;
    auto result = work(program);
    program.tidy_up();
    if constexpr (requires { result.call.notes; }) {
      if (program.has_copies()) result.call.notes.push_back(kCopyRemains);
    }
    return result;
  } catch (Error& error) {
    if (error.kind() != ErrorKind::kNoProcess) program.check_runs();
    program.tidy_up();
    if (program.has_copies()) error.set_remark(kCopyRemains);
    throw;
  }
}

}  // namespace heapsnap
