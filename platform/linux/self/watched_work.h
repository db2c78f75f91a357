// Work on other processes, done in one process and watched by another, which ends it and says so if
// it blocks in the kernel for good (platform/linux/proc/blocking_call.h).
//
//   heapsnap ── fork ─► child     the child works, heapsnap watches
//   target ◄─ heapsnap ── fork ─► child   heapsnap works, the child watches
//
// To others the two are one program: heapsnap passes signals that would end it on to a working
// child, and ends the way that child did. A child that the OOM killer ends is an error, which
// heapsnap tells.
//
// The second way is for Yama's ptrace_scope 1, which permits tracing one's descendants only: a
// heapsnap that was executed by the parent of its target (`server & exec heapsnap attach $!`) may
// trace it, but a child of heapsnap may not. There, ending the work ends heapsnap with it: it dies
// by SIGKILL, and the child prints the message.
#pragma once

#include <functional>

namespace heapsnap {

// Runs `work` and returns its exit code. If a call in it does not finish in time, everything it
// held is released, and Error{kUnsupported} is thrown in the watching process; the same error if
// the OOM killer ended the work. If no child can be created, the work is not watched.
int do_watched(const std::function<int()>& work);

// The second way.
int do_watched_by_child(const std::function<int()>& work);

}  // namespace heapsnap
