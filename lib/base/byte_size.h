// Sizes and times as people type them.
#pragma once

#include <cstdint>
#include <string>

namespace heapsnap {

// "64MiB", "512 KiB", "1g", "4096": bytes, in powers of 1024. Throws Error{kUsage} that names
// `option` and says why for anything else, for 0, and for what is too large.
uint64_t parse_byte_size(const std::string& option, const std::string& text);

// "10s", "500ms", "2m", "1h", "14d", "2w", "10" (seconds): milliseconds. Throws as above.
uint64_t parse_duration_ms(const std::string& option, const std::string& text);

}  // namespace heapsnap
