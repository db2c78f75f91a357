// A number of a call stack that is the same on every host, in every process, and in later builds as
// long as the functions keep their names: for tables of many snapshots.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/stack_frames.h"

namespace heapsnap {

// A frame, as it is called on every host that runs this program.
std::string portable_label(const NamedFrame& frame);

// From what its frames are called.
uint64_t stack_identity(const std::vector<NamedFrame>& frames);
// 16 hexadecimal digits.
std::string identity_text(uint64_t identity);

}  // namespace heapsnap
