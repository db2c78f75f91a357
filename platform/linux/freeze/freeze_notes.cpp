#include "platform/linux/freeze/freeze_notes.h"

namespace heapsnap {

namespace {

constexpr const char* kHalfChanged =
    " changing is half changed. Damage and odd sums there are no fault of the program";

std::string sharer_note(const PtraceSession::Sharer& sharer) {
  const std::string process = "process " + std::to_string(sharer.pid);
  if (sharer.memory == CommonMemory::kYes) {
    return process + " runs in the same memory (vfork) and was stopped too";
  }
  if (sharer.was_stopped) {
    return process +
           " was stopped too: it seems to run in the same memory (vfork), which nobody can tell "
           "where kcmp(2) is refused";
  }
  return process +
         " may run in the same memory (vfork), which nobody can tell where kcmp(2) is refused; it "
         "could not be stopped, so what was read may not fit together";
}

}  // namespace

std::string stood_before_note(uint64_t nanoseconds) {
  const uint64_t tenths = nanoseconds / 100'000;
  return "it had stood still for " + std::to_string(tenths / 10) + "." +
         std::to_string(tenths % 10) + " ms before, for a copy that could not be used";
}

std::string still_inside_note(uint64_t threads) {
  return std::to_string(threads) +
         " threads were in the midst of a call of malloc or free and could not be led to its end: "
         "what they were" +
         kHalfChanged;
}

std::string handlers_note(uint64_t threads) {
  return std::to_string(threads) +
         " threads were in a signal handler that had interrupted a call of malloc or free: what "
         "that was" +
         kHalfChanged;
}

std::string way_back_note(int tid) {
  return "thread " + std::to_string(tid) +
         " found its way back by itself: if it slept, its sleep began anew";
}

std::vector<std::string> sharer_notes(const PtraceSession& session) {
  std::vector<std::string> notes;
  for (const PtraceSession::Sharer& sharer : session.sharers())
    notes.push_back(sharer_note(sharer));
  if (session.misses_vfork_child()) {
    notes.emplace_back(
        "a thread waits for a child that may run in the same memory (vfork) and was not found: "
        "what was read may not fit together");
  }
  return notes;
}

}  // namespace heapsnap
