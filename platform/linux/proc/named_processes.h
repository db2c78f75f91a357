// Finds processes by name.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace heapsnap {

// PIDs, ascending, of the processes whose comm, or whose executable's file name, is exactly `name`.
// The caller and its ancestors are left out: a shell that asks for "bash" does not mean itself.
// `proc` is where the proc file system is mounted. Processes that end meanwhile are skipped.
std::vector<int> processes_named(const std::string& name, const std::string& proc = "/proc");

// Whether it executes the same file as the caller; false where that cannot be seen.
bool executes_own_file(int pid, const std::string& proc = "/proc");

// The caller, its parent, and so on, as far as this /proc shows them.
std::set<int> own_ancestry(const std::string& proc = "/proc");

}  // namespace heapsnap
