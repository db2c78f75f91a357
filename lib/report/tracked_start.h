// How all of a program's allocations come to be recorded, from the first one on.
//
// A backend of PostgreSQL is no program that somebody starts: the postmaster forks one for each
// session, and what a tracked process forks is tracked.
#pragma once

#include <string>

#include "target/process.h"

namespace heapsnap {

// "heapsnap run -- COMMAND", or of PostgreSQL "heapsnap inject POSTMASTER".
std::string tracked_start_command(const Process& process);
// A clause that ends with that command: "start it under heapsnap: heapsnap run -- COMMAND".
std::string tracked_start_text(const Process& process);
// The same, without the command.
std::string tracked_start_reason(const Process& process);

}  // namespace heapsnap
