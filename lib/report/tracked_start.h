// How all of a program's allocations come to be recorded, from the first one on.
//
// A backend of PostgreSQL is no program that somebody starts: the postmaster forks one for each
// session, and what a tracked process forks is tracked.
#pragma once

#include <string>

#include "target/process.h"

namespace heapsnap {

// Options of inject and run that record the functions of an interpreter, too: of samples, as they
// cost several times what stacks alone do.
inline constexpr const char* kWithFunctions = "--interpreter-frames --sample 512KiB";

// "heapsnap run -- COMMAND", or of PostgreSQL "heapsnap inject POSTMASTER". `options`: of run.
std::string tracked_start_command(const Process& process, const std::string& options = "");
// A clause that ends with that command: "start it under heapsnap: heapsnap run -- COMMAND".
std::string tracked_start_text(const Process& process, const std::string& options = "");
// The same, without the command.
std::string tracked_start_reason(const Process& process);

}  // namespace heapsnap
