// attach --via ruby: the process writes its own objects.
#pragma once

#include "tools/heapsnap/capture_options.h"

namespace heapsnap {

// Gives the exit code. Throws Error{kUsage} where `arguments` has options that only a snapshot has,
// and as dump_ruby().
int attach_via_ruby(int pid, CaptureArguments arguments);

}  // namespace heapsnap
