// What is shown of a live process: the plain data and readers that a Target hands out, whichever
// way it was frozen.
#pragma once

#include <sys/user.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "platform/linux/proc/mapped_files.h"
#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/trace/tracee.h"
#include "target/target.h"

namespace heapsnap {

struct LiveView {
  ProcFs proc;
  int tid = 0;  // any live thread: names the process in /proc
  Process process;
  AddressSpace address_space;
  std::vector<Thread> threads;
  std::unique_ptr<MemoryReader> memory;
  std::unique_ptr<PageResidency> residency;
  std::unique_ptr<CodeRunner> code_runner;  // the copy; null if it cannot be used

  std::optional<MappedFile> open_file(const Mapping& mapping) const;
};

// Registers of a stopped thread, as a Target shows them.
Registers visible_registers(const user_regs_struct& from);
// The same with those of its vector registers that are in use.
Registers visible_registers(const Tracee& stopped);
// Those of `tracees` that are threads of `process` and alive, with the names that `named` has.
std::vector<Thread> threads_of(int process, std::span<const Tracee> tracees,
                               std::span<const Thread> named);

// Describes `pid` as it runs: everything but memory and residency. Throws as ProcFs::describe(),
// and Error{kUnsupported} if the process is for another kind of machine.
LiveView look_at(const ProcFs& proc, int pid);

// The same, with readers of the running target.
LiveView look_at_running(const ProcFs& proc, int pid);

// Usage according to smaps of the running process `tid`, for each of `mappings`. What was mapped
// since then is left out; what grew or split counts where it is.
std::vector<MappingUsage> usage_by_smaps(const ProcFs& proc, int tid,
                                         const std::vector<Mapping>& mappings);
// The part of it that does no I/O.
std::vector<MappingUsage> attribute_usage(const MappingsWithUsage& measured,
                                          const std::vector<Mapping>& mappings);

}  // namespace heapsnap
