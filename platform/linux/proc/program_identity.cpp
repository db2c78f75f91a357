#include "platform/linux/proc/program_identity.h"

#include <elf.h>
#include <sys/auxv.h>

#include <cstring>
#include <span>

#include "platform/linux/proc/process_memory.h"

namespace heapsnap {

namespace {

// Null if the vector has no such entry.
Address find_entry(std::string_view vector, uint64_t type) {
  Elf64_auxv_t entry{};
  for (; vector.size() >= sizeof entry; vector.remove_prefix(sizeof entry)) {
    std::memcpy(&entry, vector.data(), sizeof entry);
    if (entry.a_type == type) return Address(entry.a_un.a_val);
  }
  return {};
}

}  // namespace

ProgramIdentity::ProgramIdentity(const ProcFs& proc, int tid)
    : auxiliary_vector_(proc.try_read(tid, "auxv").value_or(std::string())) {
  const Address random = find_entry(auxiliary_vector_, AT_RANDOM);
  if (random.is_null()) return;
  try {
    ProcessMemory(proc, tid, ProcessMemory::Way::kProcMem).read(random, random_);
  } catch (const Error&) {
    // It has ended or executes another program just now.
  }
}

ProgramIdentity ProgramIdentity::of_process(const ProcFs& proc, int pid) {
  return {proc, proc.live_tid(pid).value_or(pid)};
}

ProgramReplaced::ProgramReplaced(int pid, uint64_t pause)
    : Error(ErrorKind::kNoProcess, "cannot look at process " + std::to_string(pid),
            "it executes one program after another, and each is gone before it is looked at",
            "try again"),
      pause_ns(pause) {}

}  // namespace heapsnap
