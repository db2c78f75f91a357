// What to expect of the freeze and of the walk once tracing is permitted: is there an allocator
// that we know, can the target be copied, will its threads stop.
#pragma once

#include <vector>

#include "tools/doctor/attach_obstacles.h"

namespace heapsnap {

// Findings in the order of a checklist, kOk included. Reads nothing.
std::vector<Obstacle> judge_freeze(const AttachFacts& facts);

}  // namespace heapsnap
