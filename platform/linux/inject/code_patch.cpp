#include "platform/linux/inject/code_patch.h"

#include <algorithm>
#include <span>
#include <string>

#include "base/error.h"
#include "base/page.h"
#include "platform/linux/remote_call/stack_words.h"
#include "platform/linux/self/realtime_priority.h"
#include "platform/linux/trace/late_tracees.h"
#include "platform/linux/trace/priority_inheritance.h"
#include "platform/linux/trace/ptrace_session.h"
#include "platform/linux/trace/tracer_thread.h"
#include "target/address_space.h"

namespace heapsnap {

namespace {

constexpr std::chrono::seconds kPatchPatience{20};
constexpr std::chrono::seconds kPatchStopDeadline{5};
constexpr std::chrono::seconds kPatchStragglerDeadline{5};
// Between two stops, so that a thread that was inside gets a processor: on a busy machine that
// takes a while, and with one processor no thread runs before we sleep.
constexpr std::chrono::microseconds kFirstPatchNap{50};
constexpr std::chrono::microseconds kLongestPatchNap{10'000};

std::string process_text(int pid) {
  return "the code of process " + std::to_string(pid);
}

[[noreturn]] void refuse(int pid, const std::string& why, const std::string& remedy) {
  throw Error(ErrorKind::kUnsupported, process_text(pid) + " cannot be patched", why, remedy);
}

bool is_inside(const std::vector<CodePatch>& patches, uint64_t word) {
  return std::any_of(patches.begin(), patches.end(), [word](const CodePatch& patch) {
    return patch.replaced.contains(Address(word)) && patch.replaced.begin != Address(word);
  });
}

// A thread that a signal interrupted in the code will return there.
bool holds_place_inside(const std::vector<CodePatch>& patches, uint64_t stack_pointer,
                        const AddressSpace& space, MemoryReader& memory) {
  bool found = false;
  read_stack_pieces(space, memory, stack_pointer, [&](std::span<const uint64_t> words) {
    found = std::any_of(words.begin(), words.end(),
                        [&](uint64_t word) { return is_inside(patches, word); });
    return !found;
  });
  return found;
}

bool stands_inside(const std::vector<CodePatch>& patches, const Tracee& thread,
                   const AddressSpace& space, MemoryReader& memory) {
  if (!thread.is_stopped()) return false;
  const user_regs_struct& registers = thread.registers();
  return is_inside(patches, registers.rip) ||
         holds_place_inside(patches, registers.rsp, space, memory);
}

class Patching {
 public:
  Patching(const ProcFs& proc, int pid, const std::vector<CodePatch>& patches, MemoryReader& memory,
           const ThreadCheck& check)
      : proc_(proc),
        pid_(pid),
        patches_(patches),
        memory_(memory),
        check_(check),
        writer_(proc, pid) {}

  PatchResult run() {
    for (const CodePatch& patch : patches_) {
      const uint64_t first_page = patch.at.value() / kPage;
      const uint64_t last_page = (patch.at.value() + patch.after.size() - 1) / kPage;
      if (first_page != last_page || patch.after.size() != patch.before.size()) {
        refuse(pid_, "a patch at " + std::to_string(patch.at.value()) + " would span two pages",
               "");
      }
    }
    PatchResult result;
    const RealtimePriority priority;
    PriorityInheritance inheritance;
    const auto deadline = TraceClock::now() + kPatchPatience;
    std::chrono::microseconds nap = kFirstPatchNap;
    while (!try_once(inheritance, result)) {
      if (TraceClock::now() >= deadline) {
        refuse(pid_, "a thread of it is always inside the instructions to be patched", "try again");
      }
      nap_beside_late_tracees(nap);
      nap = std::min(nap * 2, kLongestPatchNap);
    }
    return result;
  }

 private:
  bool try_once(PriorityInheritance& inheritance, PatchResult& result) {
    const AddressSpace space(proc_.maps(proc_.live_tid(pid_).value_or(pid_)));
    PtraceSession session(proc_, pid_);
    session.seize_all();
    session.stop_all(TraceClock::now() + kPatchStopDeadline, inheritance);
    ++result.stops;
    bool is_free = session.stragglers() == 0;
    result.threads = 0;
    for (const Tracee& thread : session.tracees()) {
      if (thread.is_gone()) continue;
      if (check_) check_(thread);
      ++result.threads;
      is_free = is_free && !stands_inside(patches_, thread, space, memory_);
    }
    if (is_free) {
      check_bytes();
      for (const CodePatch& patch : patches_) {
        if (!writer_.write(patch.at, patch.after)) undo(patch.at);
      }
    }
    inheritance.end();
    session.release();
    result.pause = session.pause();
    if (!session.await_stragglers(TraceClock::now() + kPatchStragglerDeadline) && !is_free) {
      refuse(pid_, "a thread of it is in uninterruptible sleep in the kernel",
             "try again later: heapsnap doctor " + std::to_string(pid_) + " says which one it is");
    }
    return is_free;
  }

  void check_bytes() const {
    std::vector<std::byte> now;
    for (const CodePatch& patch : patches_) {
      now.resize(patch.before.size());
      if (!memory_.read_exact(patch.at, now) || now != patch.before) {
        refuse(pid_, "its bytes have just changed: another tool is patching it",
               "stop that tool first");
      }
    }
  }

  // The first write fails or none does: later ones could only lack memory for private pages.
  [[noreturn]] void undo(Address failed) {
    for (const CodePatch& patch : patches_) {
      if (patch.at == failed) break;
      writer_.write(patch.at, patch.before);
    }
    refuse(pid_, "the kernel does not allow writing to its code", "");
  }

  const ProcFs& proc_;
  int pid_;
  const std::vector<CodePatch>& patches_;
  MemoryReader& memory_;
  const ThreadCheck& check_;
  MemoryWriter writer_;
};

}  // namespace

PatchResult apply_patches(const ProcFs& proc, int pid, const std::vector<CodePatch>& patches,
                          MemoryReader& memory, const ThreadCheck& check) {
  PatchResult result;
  TracerThread tracer;
  tracer.run([&] { result = Patching(proc, pid, patches, memory, check).run(); });
  return result;
}

}  // namespace heapsnap
