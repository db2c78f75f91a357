// Threads of the target that this thread traces and could not stop in time (stragglers of a
// PtraceSession that has ended).
//
// An interrupt is pending for each: it stops later, and then stands until it is detached, which
// only the thread that traces it can do. That one may be busy by then: it reads a copy, or waits
// for another tracee. So it looks after such threads whenever it waits, and between two pieces of
// work (tracer_thread.h). A session that seizes the thread again takes it over.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "platform/linux/trace/tracee.h"

namespace heapsnap {

// Whether it is gone, or was stopped and is detached now, with its system call repaired.
bool detach_if_stopped(Tracee& tracee);

// Adds them to the late ones of this thread. Each is detached once it has stopped, as if it had
// never been traced; the end of this thread does the same for those that have not stopped by then.
void detach_when_stopped(std::vector<Tracee> tracees);
bool has_late_tracees() noexcept;
// Detaches those that have stopped, unless it was called less than a millisecond ago.
void look_after_late_tracees();
// The one with this tid, which is no longer looked after; nullopt if there is none.
std::optional<Tracee> take_late_tracee(int tid);
// Of those that have exited: an execve(2) of the target waits for that. May be called in a signal
// handler that interrupts none of these functions.
void give_up_late_zombies() noexcept;

// Sleeps for `duration` and looks after them meanwhile.
void nap_beside_late_tracees(std::chrono::microseconds duration);

}  // namespace heapsnap
