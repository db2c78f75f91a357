// Strict UTF-8, one character at a time, out of bytes that may be anything.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace heapsnap {

// Takes the first character off `text`, which must not be empty. Gives nothing for a byte that
// starts no well-formed sequence (stray or missing continuation, over-long form, surrogate, past
// U+10FFFF); then only the bytes of the broken sequence are taken, at least one.
std::optional<char32_t> take_utf8(std::string_view& text);

// `text`, with U+FFFD for each broken sequence.
std::string valid_utf8(std::string_view text);

}  // namespace heapsnap
