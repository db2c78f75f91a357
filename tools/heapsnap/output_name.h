// File names with the facts of a target in them: "%n.%p.%t.hsnap".
#pragma once

#include <cstdint>
#include <string>

#include "target/process.h"

namespace heapsnap {

// Replaces %h host name, %p PID, %n process name, %t time as 20260131T235959Z, %% a percent sign.
// A slash in a value becomes '_', so that a process's name cannot lead into another folder.
// Throws Error{kUsage} for any other letter after '%'.
std::string expand_output_name(const std::string& pattern, const Process& process,
                               int64_t taken_at_ns);

}  // namespace heapsnap
