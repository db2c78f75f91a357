// Names for files that nobody named: ours by default, and in the commands that a report proposes.
#pragma once

#include <string>

namespace heapsnap {

// `name`, or, where a file has it, one like it that none has: "first.hsnap", "first.2.hsnap" …
// Up to number 999.
std::string free_file_name(const std::string& name);

}  // namespace heapsnap
