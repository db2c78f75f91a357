// The option --memory-limit of the commands that start the tracker.
#pragma once

#include <cstdint>
#include <string>

namespace heapsnap {

class OptionParser;

void add_memory_limit(OptionParser& parser, std::string& text);

// Bytes; 0 when the option was not given. `frames`: kept of a stack, 0: no limit. Throws
// Error{kUsage} for what is no size, or less than tables take that hold nothing.
uint64_t parse_memory_limit(const std::string& text, uint64_t frames);

}  // namespace heapsnap
