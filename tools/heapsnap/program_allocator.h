// Who will answer a program's calls of malloc, before it is started.
#pragma once

#include <optional>
#include <string>

#include "heap/discovery/allocator_verdict.h"

namespace heapsnap {

struct ProgramAllocator {
  std::string program;  // the ELF file that `command` leads to: itself, or a script's interpreter
  bool has_loader = false;  // else it is linked statically, and nothing is preloaded
  AllocatorVerdict verdict;
};

// Nothing when no such program is found. Has the program's own loader list the libraries that it
// would start with (ld.so --list), which does not start it.
std::optional<ProgramAllocator> allocator_of_program(const std::string& command);

}  // namespace heapsnap
