// Reads the kernel's small text files whole, and parses their "Key: value" lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heapsnap {

// Text of one file of /proc or /sys; nullopt if it cannot be read (errno says why) or is longer
// than `limit` bytes.
std::optional<std::string> read_kernel_text(const std::string& path, size_t limit = 1 << 20);

// The same, but empty instead of nullopt.
std::string kernel_text_or_empty(const std::string& path);

// The target of a symbolic link, as readlink(2) returns it; empty if it cannot be read.
std::string link_target_or_empty(const std::string& path);

// `text` without leading and trailing whitespace.
std::string_view trimmed(std::string_view text);

// Removes the first line from `text` and returns it; nullopt at the end.
std::optional<std::string_view> take_line(std::string_view& text);

// Removes the first blank-separated word from `text` and returns it; empty if there is none.
std::string_view take_word(std::string_view& text);

// Value of the first line "Key:   value" (/proc/PID/status, /proc/meminfo), trimmed.
std::optional<std::string_view> status_field(std::string_view text, std::string_view key);
// The same as a number: the leading decimal digits of the value, so that "12 kB" is 12.
std::optional<uint64_t> status_number(std::string_view text, std::string_view key);
// The same in bytes, for a value in "kB"; nullopt if it overflows.
std::optional<uint64_t> status_bytes(std::string_view text, std::string_view key);

// All of `text`, trimmed, as an unsigned number; nullopt if it is anything else.
std::optional<uint64_t> parse_number(std::string_view text, int base = 10);

}  // namespace heapsnap
