// The process as it runs: for looking around before a freeze.
#pragma once

#include <memory>

#include "target/target.h"

namespace heapsnap {

// memory() reads the moving target, threads() carry no registers. Throws TargetRefusal, and
// Error{kNoProcess, kUnsupported}.
std::unique_ptr<Target> open_running_process(int pid);

}  // namespace heapsnap
