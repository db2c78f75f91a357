// What a snapshot records of a process besides its memory: which build of its program it runs, and
// how close to a limit it is.
#pragma once

#include <optional>
#include <string>

#include "snapshot/metadata.h"
#include "target/target.h"

namespace heapsnap {

// Build-id of the executable; empty where it has none or cannot be read.
std::string program_build_id(Target& target);

// How much memory process `pid` may still take; nothing where the kernel does not say.
std::optional<MemoryLeft> find_memory_left(int pid);

}  // namespace heapsnap
