// Addresses as people type them.
#pragma once

#include <optional>
#include <string_view>

#include "base/address.h"

namespace heapsnap {

// "0x7f0012345678" or "7f0012345678": always hexadecimal. None for anything else.
std::optional<Address> parse_address(std::string_view text);

}  // namespace heapsnap
