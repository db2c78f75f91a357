// The process that a command was given: a PID, a name, a container or a pod.
#pragma once

#include <string>

namespace heapsnap {

// The remedy where no process has a name.
inline constexpr const char* kListProcesses = "list them with: ps -eo pid,comm,rss --sort=-rss";

// "1234" is that PID, or the program that it started where it is a `heapsnap run`, as a shell's $!
// may be (a notice says so); "container:ID" and "pod:UID" are the main process of these
// (container_argument.h). Anything else is a name: the process whose comm, or whose executable's
// file name, is exactly that. Throws Error{kUsage} when several match (listing them) and
// Error{kNoProcess} when none does. heapsnap itself and its ancestors never match a name.
int resolve_target(const std::string& argument);

// Throws Error{kUsage}: `command` was given no process, or more than one.
[[noreturn]] void fail_without_one_target(const std::string& command);

}  // namespace heapsnap
