#include "platform/linux/freeze/freeze_notes.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>

#include "base/count_text.h"
#include "base/file_name.h"
#include "platform/linux/freeze/freeze_estimate.h"

namespace heapsnap {

namespace {

constexpr const char* kHalfChanged =
    " changing may be inconsistent in the snapshot; corruption and wrong sums there are not the "
    "program's fault";

// "libc.so.6+0x9c1d3": relative to the first mapping of the file.
std::string place_text(uint64_t address, const AddressSpace& space) {
  std::array<char, 32> offset{};
  const Mapping* const mapping = space.find(Address(address));
  Address begin;
  if (mapping != nullptr && mapping->inode != 0) {
    for (const Mapping& each : space.mappings()) {
      if (each.path != mapping->path || each.inode != mapping->inode) continue;
      begin = each.range.begin;
      break;
    }
  }
  std::snprintf(offset.data(), offset.size(), "0x%" PRIx64, address - begin.value());
  if (begin.is_null()) return offset.data();
  return std::string(file_name_of(mapping->path)) + "+" + offset.data();
}

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

std::string not_copied_text(const std::string& how_much) {
  return "a fork does not copy " + how_much + " of it (madvise MADV_DONTFORK)";
}

std::string lost_copy_text(const std::optional<std::string>& reason) {
  return "a copy was made and lost: " + reason.value_or(kCopyKilled);
}

std::string earlier_pause_note(uint64_t nanoseconds) {
  return "it had already been paused for " +
         milliseconds_text(std::chrono::nanoseconds(nanoseconds)) + ", for an attempt that failed";
}

std::string throttled_note(std::chrono::nanoseconds time, const std::string& group) {
  return "heapsnap itself could not run for " + milliseconds_text(time) +
         " of the pause: its control group " + group +
         " had used up its CPU quota. Start it outside of that group for a shorter pause";
}

std::string still_inside_note(const std::vector<StuckThread>& threads, const AddressSpace& space) {
  constexpr size_t kNamed = 3;
  std::string note = count_text(threads.size(), "thread was", "threads were") +
                     " inside malloc or free and could not be stepped out of it: what " +
                     (threads.size() == 1 ? "it was" : "they were") + kHalfChanged + " (";
  for (size_t i = 0; i < std::min(threads.size(), kNamed); ++i) {
    const StuckThread& thread = threads[i];
    note += (i == 0 ? "thread " : ", thread ") + std::to_string(thread.tid) + " at " +
            place_text(thread.at, space) + " " + thread.why;
  }
  return note + ")";
}

std::string out_of_time_note(std::chrono::milliseconds deadline) {
  return "--deadline passed after " + std::to_string(deadline.count()) +
         " ms: a longer one gives threads more time to leave malloc and free";
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

std::string zombie_note(const std::string& reason) {
  return std::string(kCopyRemains) + ": " + reason;
}

std::string stragglers_note(uint64_t threads) {
  return count_text(threads, "thread was", "threads were") +
         " in a system call that cannot be interrupted (uninterruptible sleep, or a page that "
         "userfaultfd(2) has to provide): no code of the program ran, but the registers are not "
         "known";
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
