// What bars an attach to a process, what makes it worse than it could be, and what to do about it.
//
// Nothing here touches the target: it is all read from /proc, /sys and by calls that have no
// effect. So a finding is what the kernel says now; an attach a moment later can still meet another
// one. Each finding names its remedy as a command where there is one:
//
//   what    "Yama allows tracing of children only"
//   why     "kernel.yama.ptrace_scope is 1 and heapsnap has no CAP_SYS_PTRACE"
//   remedy  "sudo heapsnap attach 4711"
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace heapsnap {

// Where the kernel's text files are; tests put folders with fixtures in their place.
struct KernelFiles {
  std::string proc = "/proc";
  std::string sys = "/sys";
};

struct Obstacle {
  enum class Severity : uint8_t {
    kNote = 0,      // good to know; an attach works as well as it can
    kDegrades = 1,  // an attach works, but slower, with a longer pause or with less detail
    kBlocks = 2,    // an attach fails
  };
  Severity severity = Severity::kNote;
  std::string id;  // stable, for programs: "yama", "tracer", "memory-cgroup"
  std::string what;
  std::string why;
  std::string remedy;                         // a command, or empty
  ErrorKind kind = ErrorKind::kNotPermitted;  // what an attach would exit with; for kBlocks only
};

const char* to_string(Obstacle::Severity severity);

// Findings about attaching to `pid` from this process, the worst first. `pid` 0: those that hold
// for every target on this machine. Never throws for what it cannot read: that is itself a finding
// or left out.
std::vector<Obstacle> find_obstacles(int pid, const KernelFiles& files = {});

// Turns a refusal of ptrace, process_vm_readv or of opening a file of /proc/PID into an Error whose
// cause was looked up by the same checks. `error_number`: ESRCH, EPERM, EACCES, ENOENT or another
// errno, which is then reported as it is. To be called when nothing of the target is held any more.
Error explain_attach_refusal(int pid, int error_number, const KernelFiles& files = {});

}  // namespace heapsnap
