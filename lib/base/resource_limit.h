// Limits of this process itself (getrlimit(2)), which its shell may have set by `ulimit`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace heapsnap {

// `resource`: RLIMIT_AS, ... Nothing where there is no limit.
std::optional<uint64_t> resource_limit(int resource);

// Of the same resources as below: "-v", ...
const char* option_of_ulimit(int resource);

// How the user raises it in the shell: by ulimit, or as root, as `ulimit` sets the hard limit, too.
// For RLIMIT_AS, RLIMIT_DATA and RLIMIT_FSIZE.
std::string how_to_raise_limit(int resource);

}  // namespace heapsnap
