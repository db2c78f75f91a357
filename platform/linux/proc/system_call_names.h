// Names of the system calls that heapsnap makes in a target's name, for messages.
#pragma once

#include <string>

namespace heapsnap {

// "memfd_create (system call 319)"; of others the number alone: "system call 999".
std::string system_call_name(long number);

}  // namespace heapsnap
