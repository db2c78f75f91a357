// Counts as people read them: the one place that knows singular from plural.
#pragma once

#include <cstdint>
#include <string>

namespace heapsnap {

// "1,234,567"
std::string count_text(uint64_t count);
// "1 thread", "2,000 threads"
std::string count_text(uint64_t count, const std::string& singular, const std::string& plural);

}  // namespace heapsnap
