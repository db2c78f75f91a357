// Counts and sizes as people read them: the one place that knows singular from plural.
#pragma once

#include <cstdint>
#include <string>

namespace heapsnap {

// "1,234,567"
std::string count_text(uint64_t count);
// "1 thread", "2,000 threads"
std::string count_text(uint64_t count, const std::string& singular, const std::string& plural);
// "0 B", "512 B", "1.5 KiB", "1023.9 MiB", "12.0 GiB": one decimal, rounded to the nearest; what
// rounds up to 1024 is one of the next unit.
std::string size_text(uint64_t bytes);
// The same for narrow columns: "512", "1.5K", "12.3M", "4.0G"; 7 characters at most.
std::string short_size_text(uint64_t bytes);

}  // namespace heapsnap
