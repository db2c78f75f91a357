// Headers of a request that must not be on the command line, where every user of the machine sees
// them: a line each, "Authorization: Bearer ...".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heapsnap {

// The environment variable that has such lines, too.
inline constexpr const char* kHeadersVariable = "HEAPSNAP_PUSH_HEADERS";

// Empty lines, and those that begin with "#", are passed over. `source` is for messages, which
// never quote a line. Throws Error{kUsage} for what is no header, or one that heapsnap itself sets.
std::vector<std::string> parse_header_lines(std::string_view text, const std::string& source);
// Throws Error{kBadInput}, too.
std::vector<std::string> read_header_file(const std::string& path);

}  // namespace heapsnap
