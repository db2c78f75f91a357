// Names as rustc mangles them since v0 (RFC 2603), read and written out in one pass.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace heapsnap {

// What `mangled`, which follows "_R", stands for. Nothing when it makes no sense, or when its
// references to itself make it too long or too deep.
std::optional<std::string> rust_v0_name(std::string_view mangled);

}  // namespace heapsnap
