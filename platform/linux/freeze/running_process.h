// A process as it runs, to be examined before a freeze.
#pragma once

#include <memory>

#include "target/target.h"

namespace heapsnap {

// memory() reads the running target, threads() have no registers. Throws TargetRefusal, and
// Error{kNoProcess, kUnsupported}.
std::unique_ptr<Target> open_running_process(int pid);

}  // namespace heapsnap
