// Why the kernel refuses to let heapsnap trace a process: ptrace(2), "Ptrace access mode checking".
//
// The kernel asks, in this order, and one capability answers most of it:
//
//   1. are the ids of the target all ours?            or CAP_SYS_PTRACE in its user namespace
//   2. is it dumpable?                                or CAP_SYS_PTRACE there
//   3. are its capabilities a subset of ours?         or CAP_SYS_PTRACE there
//   4. does Yama allow it?                            or CAP_SYS_PTRACE there, but for scope 3
//   5. does the security module allow it?
#pragma once

#include <optional>
#include <string>

#include "tools/doctor/attach_obstacles.h"

namespace heapsnap {

// Whether our CAP_SYS_PTRACE counts for the target (for every target in our user namespace when
// the facts have none).
bool has_ptrace_capability(const AttachFacts& facts);

// The one cause that has to be dealt with first. Nothing when the facts name none: permitted, or
// refused for a reason that cannot be seen.
std::optional<Obstacle> find_refusal_cause(const AttachFacts& facts);

// The command that runs the attach with CAP_SYS_PTRACE, from where heapsnap runs now; empty when
// heapsnap has what that command would give, so that something else must be in the way.
std::string remedy_by_capability(const AttachFacts& facts);

// The same for the seccomp filter that heapsnap runs under: that of its container, or one of its
// own.
std::string remedy_without_seccomp(const AttachFacts& facts);

// "root", "user 1000"
std::string user_text(uint32_t uid);

// "attach 4711", or "attach PID" when the facts have no target: what a remedy runs.
std::string attach_arguments(const AttachFacts& facts);

}  // namespace heapsnap
