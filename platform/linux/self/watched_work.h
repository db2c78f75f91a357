// Work on other processes, done in one process and watched by another: should it wait in the kernel
// for what never comes (platform/linux/proc/blocking_call.h), the other one ends it and says so.
//
//   heapsnap ── fork ─► child     the child works, heapsnap watches
//   target ◄─ heapsnap ── fork ─► child   heapsnap works, the child watches
//
// To others the two are one program: signals that end heapsnap are passed on to a child that works,
// and heapsnap ends the way that did.
//
// The second way is for Yama's ptrace_scope 1, which permits to trace one's descendants only: a
// heapsnap that was executed by the parent of its target (`server & exec heapsnap attach $!`) may
// trace it, but a child of heapsnap may not. Work that has to be ended takes heapsnap along there:
// it dies by SIGKILL, and the words come from the child.
#pragma once

#include <functional>

namespace heapsnap {

// Does `work` and gives its exit code. Where a call in it did not come to an end in time, whatever
// it held is let go, and Error{kUnsupported} is thrown, in the process that watched. Where no child
// can be made nobody watches.
int do_watched(const std::function<int()>& work);

// The second of the two ways.
int do_watched_by_child(const std::function<int()>& work);

}  // namespace heapsnap
