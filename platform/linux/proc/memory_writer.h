// Writes the memory of a live process, also where the process itself may only read or execute it:
// through /proc/PID/mem, by which the kernel makes a page of its own for the process where the page
// belongs to a file (as debuggers do for breakpoints).
//
// Bytes that lie in one page are written by one copy in the kernel, which a SIGKILL of heapsnap
// does not break off: it is either made or not.
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
