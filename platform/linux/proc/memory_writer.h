// Writes the memory of a live process, even where the process itself may only read or execute it:
// through /proc/PID/mem, where the kernel gives the process a private copy of a page that belongs
// to a file (as for a debugger's breakpoints).
//
// The kernel writes bytes within one page in one copy, which a SIGKILL of heapsnap does not
// interrupt: it happens whole or not at all.
#pragma once

#include <cstddef>
#include <span>

#include "base/address.h"
#include "base/unique_fd.h"
#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

class MemoryWriter {
 public:
  // Throws TargetRefusal.
  MemoryWriter(const ProcFs& proc, int pid);

  // Whether all of `bytes` was written.
  bool write(Address to, std::span<const std::byte> bytes);
  template <typename T>
  bool write_value(Address to, const T& value) {
    return write(to, std::as_bytes(std::span(&value, 1)));
  }

 private:
  UniqueFd mem_;
};

}  // namespace heapsnap
