// Which program a process executes, so that what was found out about it before is not taken for
// true after an execve(2).
//
// The kernel gives each execve(2) 16 random bytes of its own on the initial stack (AT_RANDOM in the
// auxiliary vector, getauxval(3)), and the vector says where: with or without address space layout
// randomization no two of them are alike.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

class ProgramIdentity {
 public:
  // Of the process of the live thread `tid`, as it is now. What cannot be read is alike.
  ProgramIdentity(const ProcFs& proc, int tid);
  // The same of process `pid`, whose leader may have exited.
  static ProgramIdentity of_process(const ProcFs& proc, int pid);

  bool operator==(const ProgramIdentity&) const = default;

 private:
  std::string auxiliary_vector_;  // empty in the middle of an execve
  std::array<std::byte, 16> random_{};
};

// A process executes another program than the one that was looked at. To be asked again.
class ProgramReplaced : public Error {
 public:
  explicit ProgramReplaced(int pid, uint64_t pause = 0);

  uint64_t pause_ns;  // for which it was stopped in vain, in all
};

}  // namespace heapsnap
