// A process of ours that is stopped after the Nth of the system calls by which it acts on others,
// so that every state in which it can die, or its victim can, is visited in turn.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>

namespace heapsnap::live {

// Runs `body` in a forked process. After the `step`th of its system calls that have an effect on
// another process (ptrace, process_vm_writev, kill, write ...), counted from 1 over all
// threads of it and of its children, `act` is called while the thread stands; then it goes on.
// Gives its exit code, which is what `body` gives, or nothing when it came to its end before that
// step. Throws std::runtime_error when it dies of a signal. Reaps other children of ours that end
// meanwhile.
std::optional<int> act_after_step(int step, const std::function<int()>& body,
                                  const std::function<void()>& act);

// The same after each of these system calls, for an `act` that changes nothing for the process.
// Gives their number. Throws also when the exit code is not 0.
int act_after_each_step(const std::function<int()>& body, const std::function<void()>& act);

// As act_after_step, but kills it by SIGKILL there. False when it came to its end before, which
// must be an orderly one.
bool kill_after_step(int step, const std::function<void()>& body);

// As act_after_step, but `act` is given the pid of the process that made the call, itself or a
// child of it, and may end it: gives how the first one ended, as of waitpid(2), or nothing when it
// came to its end before that step.
std::optional<int> end_after_step(int step, const std::function<int()>& body,
                                  const std::function<void(pid_t)>& act);

}  // namespace heapsnap::live
