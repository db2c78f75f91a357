// A process of ours that can be killed after the Nth of the system calls by which it acts on
// others, so that every state that it can leave behind is visited in turn.
#pragma once

#include <functional>

namespace heapsnap::live {

// Runs `body` in a forked process and kills that by SIGKILL at the end of the `step`th of its
// system calls that have an effect on another process (ptrace, process_vm_writev, kill, write ...),
// counted from 1 over all its threads. True when it was killed; false when it came to its end
// before, which must be an orderly one.
bool kill_after_step(int step, const std::function<void()>& body);

}  // namespace heapsnap::live
