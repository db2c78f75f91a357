// Limits of this process itself (getrlimit(2)), which its shell may have set by `ulimit`.
#pragma once

#include <cstdint>
#include <optional>

namespace heapsnap {

// `resource`: RLIMIT_AS, ... Nothing where there is no limit.
std::optional<uint64_t> resource_limit(int resource);

// Whether the shell may raise it: `ulimit` sets the hard limit, too, which only root may raise.
bool may_raise_limit(int resource);

}  // namespace heapsnap
