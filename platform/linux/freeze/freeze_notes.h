// What the record of a freeze says when something did not go as it should.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "platform/linux/freeze/malloc_exit.h"
#include "platform/linux/trace/ptrace_session.h"
#include "target/address_space.h"

namespace heapsnap {

// Why a copy is gone that heapsnap has not killed itself.
constexpr const char* kCopyKilled =
    "the copy of the process was killed, by another process or because memory ran out";
// Why no copy is made of a target with private huge pages. When none is left, the kernel takes one
// away from the copy if the target has reserved it; but nothing shows that, and a process does not
// inherit reservations.
constexpr const char* kMayRunOutOfHugePages =
    "it has private huge pages (hugetlb), and the kernel ends it if it writes to one that a copy "
    "shares while none is left to take instead";
// Why no copy is made of a target whose code a fork leaves out.
constexpr const char* kCodeNotCopied = "a fork does not copy its code (madvise MADV_DONTFORK)";
// The same of data, "1.2 GiB" or "more than" that.
std::string not_copied_text(const std::string& how_much);
// Why the target is read while it is stopped: its copy was lost, for `reason`, else kCopyKilled.
std::string lost_copy_text(const std::optional<std::string>& reason);
// The target was stopped for a copy that turned out to be unusable.
std::string earlier_pause_note(uint64_t nanoseconds);
// heapsnap did not run for that long of the pause, since `group` had used up its CPU quota.
std::string throttled_note(std::chrono::nanoseconds time, const std::string& group);
// Threads that could not be run out of the allocator, and where some of them were in `space`.
std::string still_inside_note(const std::vector<StuckThread>& threads, const AddressSpace& space);
// That was because `deadline` passed.
std::string out_of_time_note(std::chrono::milliseconds deadline);
// Threads in a signal handler that interrupted the allocator.
std::string handlers_note(uint64_t threads);
// A thread that made system calls for heapsnap ran on before it was released.
std::string way_back_note(int tid);
// The target could not be made to reap its copy; with zombie_note(), for `reason`.
inline constexpr const char* kCopyRemains =
    "the copy of the process remains a zombie of it until the next heapsnap attach";
std::string zombie_note(const std::string& reason);
// Threads that never stopped.
std::string stragglers_note(uint64_t threads);
// Processes that run in the target's memory, stopped and not.
std::vector<std::string> sharer_notes(const PtraceSession& session);

}  // namespace heapsnap
