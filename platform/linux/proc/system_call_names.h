// Names, for messages, of the system calls that heapsnap makes in a target.
#pragma once

#include <string>

namespace heapsnap {

// "memfd_create (system call 319)"; for others the number alone: "system call 999".
std::string system_call_name(long number);

}  // namespace heapsnap
