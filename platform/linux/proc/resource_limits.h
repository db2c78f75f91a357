// The limits of a process as /proc/PID/limits lists them:
//
//   Limit                     Soft Limit           Hard Limit           Units
//   Max stack size            8388608              unlimited            bytes
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace heapsnap {

// The soft limit on the line that begins with `name`; nullopt for "unlimited" or without the line.
std::optional<uint64_t> soft_limit(std::string_view limits, std::string_view name);

}  // namespace heapsnap
