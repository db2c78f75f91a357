// What the notes of a core say: the process, its threads, its mapped files, its auxiliary vector.
//
// Layouts are those of <linux/elfcore.h> and <sys/procfs.h> for x86-64, i386 and aarch64, written
// by the kernel and by gcore alike. A damaged or missing note leaves its part empty.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "elf/elf_headers.h"
#include "target/process.h"

namespace heapsnap {

struct CoreNotes {
  Process process;
  // As in the core: the kernel puts the thread that died first.
  std::vector<Thread> threads;
  // NT_FILE: what was mapped from where, in the order of the core.
  struct File {
    AddressRange range;
    uint64_t offset = 0;  // bytes
    std::string path;
    bool deleted = false;
  };
  std::vector<File> files;
  std::map<uint64_t, uint64_t> auxiliary_vector;  // AT_* to value

  std::optional<uint64_t> auxiliary(uint64_t type) const;
};

CoreNotes read_core_notes(const ElfHeaders& core);

}  // namespace heapsnap
