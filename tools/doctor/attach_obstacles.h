// What prevents attaching to a process, what makes it work less well, and what to do about it.
//
// Nothing here touches the target: it is all read from /proc, /sys and by calls that have no
// effect. So a finding is what the kernel says now; an attach a moment later can still meet another
// one. Each finding names its remedy as a command where there is one:
//
//   what    "Yama lets only ancestors trace a process"
//   why     "kernel.yama.ptrace_scope is 1, heapsnap has no CAP_SYS_PTRACE and did not start it"
//   remedy  "sudo heapsnap attach 4711"
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "platform/linux/proc/target_refusal.h"
#include "tools/doctor/attach_facts.h"

namespace heapsnap {

struct Obstacle {
  enum class Severity : uint8_t {
    kOk = 0,        // looked at and no obstacle: a line of a checklist
    kNote = 1,      // good to know; an attach works as well as it can
    kDegrades = 2,  // an attach works, but slower, with a longer pause or with less detail
    kBlocks = 3,    // an attach fails, or has no heap to walk
  };
  Severity severity = Severity::kNote;
  std::string id;  // stable, for programs: "yama", "tracer", "memory-cgroup"
  std::string what;
  std::string why;
  std::string remedy;                         // a command, or empty
  ErrorKind kind = ErrorKind::kNotPermitted;  // what an attach would exit with; for kBlocks only
};

const char* to_string(Obstacle::Severity severity);

// All that was looked at, in the order of a checklist, kOk included. Reads nothing.
std::vector<Obstacle> judge_attach(const AttachFacts& facts);

// `error` itself, or, where it is a TargetRefusal, an Error whose cause was looked up by the same
// checks. To be called after everything in the target was released: otherwise heapsnap would report
// itself as the obstacle.
Error explained(const Error& error);
Error explain_attach_refusal(const AttachFacts& facts, const TargetRefusal& refusal);

}  // namespace heapsnap
