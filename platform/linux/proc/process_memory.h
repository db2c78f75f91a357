// Memory of a live process as a MemoryReader.
//
// Two ways with the same result:
//   kVmReadv   process_vm_readv(2): the fastest for a running or stopped target (6.5 GB/s in
//              pieces of 1 MB or more), but it asks for pages as a writer would, so in a
//              copy-on-write child it unshares every page that it reads. Memory that the target
//              has protected (PROT_NONE) is read the other way.
//   kProcMem   pread(2) of /proc/PID/mem: leaves pages shared. For children, and where
//              process_vm_readv is refused (a seccomp profile around heapsnap).
#pragma once

#include <atomic>

#include "base/unique_fd.h"
#include "platform/linux/proc/proc_fs.h"
#include "target/memory_reader.h"

namespace heapsnap {

class ProcessMemory : public MemoryReader {
 public:
  enum class Way { kVmReadv, kProcMem };

  // Throws Error{kNoProcess, kNotPermitted} if the memory may not be read at all. The open
  // /proc/PID/mem belongs to the current address space: once the target calls execve, it reads
  // nothing.
  ProcessMemory(const ProcFs& proc, int pid, Way way);

  // From now on it counts as gone once `is_void`, which outlives this, is true.
  void gone_when(const std::atomic<bool>& is_void) { is_void_ = &is_void; }

  // Throws Error{kNoProcess} when the process, or the address space it had, is gone.
  size_t read(Address from, std::span<std::byte> out) override;

 private:
  size_t read_by_vm_readv(Address from, std::span<std::byte> out);
  size_t read_by_proc_mem(Address from, std::span<std::byte> out);
  [[noreturn]] void fail_gone() const;

  int pid_;
  Way way_;
  UniqueFd mem_;
  const std::atomic<bool>* is_void_ = nullptr;
};

}  // namespace heapsnap
