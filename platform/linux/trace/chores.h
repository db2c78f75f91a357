// What a tracing thread does beside its work, about every millisecond.
//
// A thread of the target that could not be stopped in time (PtraceSession: a straggler) stops
// later, and then stands until it is detached, which only the thread that traces it can do. That
// one may be busy by then: it reads a copy, or waits for another tracee. So it looks after such
// threads whenever it waits, and between two pieces of work (tracer_thread.h).
#pragma once

#include <functional>
#include <vector>

#include "platform/linux/trace/tracee.h"

namespace heapsnap {

// Calls `chore` in this thread from now on, until it returns false or the thread ends.
void keep_calling(std::function<bool()> chore);
bool has_chores() noexcept;
// Calls them unless they were called less than a millisecond ago.
void call_due_chores();

// Detaches each once it has stopped, as if it had never been traced: an interrupt is pending for
// it. The end of this thread does the same for those that have not stopped by then.
void detach_when_stopped(std::vector<Tracee> tracees);

}  // namespace heapsnap
