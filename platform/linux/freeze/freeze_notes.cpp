#include "platform/linux/freeze/freeze_notes.h"

#include "base/count_text.h"

namespace heapsnap {

namespace {

constexpr const char* kHalfChanged =
    " changing may be inconsistent in the snapshot; corruption and wrong sums there are not the "
    "program's fault";

std::string sharer_note(const PtraceSession::Sharer& sharer) {
  const std::string process = "process " + std::to_string(sharer.pid);
  if (sharer.memory == CommonMemory::kYes) {
    return process + " runs in the same memory (vfork) and was stopped too";
  }
  if (sharer.was_stopped) {
    return process +
           " was stopped too: it seems to run in the same memory (vfork), which cannot be checked "
           "because kcmp(2) is refused";
  }
  return process +
         " may run in the same memory (vfork), which cannot be checked because kcmp(2) is refused; "
         "it could not be stopped, so the snapshot may be inconsistent";
}

}  // namespace

std::string stood_before_note(uint64_t nanoseconds) {
  const uint64_t tenths = nanoseconds / 100'000;
  return "it had already been paused for " + std::to_string(tenths / 10) + "." +
         std::to_string(tenths % 10) + " ms, for a copy that could not be used";
}

std::string still_inside_note(uint64_t threads) {
  return count_text(threads, "thread was", "threads were") +
         " inside malloc or free and could not be stepped out of it: what " +
         (threads == 1 ? "it was" : "they were") + kHalfChanged;
}

std::string handlers_note(uint64_t threads) {
  return count_text(threads, "thread was", "threads were") +
         " in a signal handler that had interrupted malloc or free: what that call was" +
         kHalfChanged;
}

std::string way_back_note(int tid) {
  return "thread " + std::to_string(tid) +
         " returned by itself: if it was sleeping, its sleep started over";
}

std::vector<std::string> sharer_notes(const PtraceSession& session) {
  std::vector<std::string> notes;
  for (const PtraceSession::Sharer& sharer : session.sharers())
    notes.push_back(sharer_note(sharer));
  if (session.misses_vfork_child()) {
    notes.emplace_back(
        "a thread waits for a child that may run in the same memory (vfork) and was not found: "
        "the snapshot may be inconsistent");
  }
  return notes;
}

}  // namespace heapsnap
