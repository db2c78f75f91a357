// Characters outside of ASCII in mangled names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heapsnap {

// Whether it is a character, and not a half of one (a surrogate) or past U+10FFFF.
bool is_scalar_value(uint32_t character);

// A scalar value, as UTF-8.
void append_utf8(uint32_t character, std::string& to);

// Punycode (RFC 3492), with "_" for the delimiter as rustc has it, in UTF-8. Nothing when it is
// damaged, or longer than any name.
std::optional<std::string> decoded_punycode(std::string_view text);

}  // namespace heapsnap
