// Commands that a reader can copy into a shell.
#pragma once

#include <string>
#include <string_view>

#include "target/process.h"

namespace heapsnap {

// `text` as one word of a command, quoted where a shell would read it otherwise: "a.hsnap",
// "'my file'". `stand_in` for what cannot be printed as it is.
std::string shell_word(std::string_view text, std::string_view stand_in);

// The process in a command: its PID, or "PID" where that is not known. Of a snapshot that was
// shared it is not: another process of the reader's has the number that stands for it.
std::string pid_word(const Process& process);

}  // namespace heapsnap
