// The kernel's small text files: read whole, and their "Key: value" lines picked apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heapsnap {

// Text of one file of /proc or /sys. Nothing when it cannot be read (errno says why) or is longer
// than `limit` bytes.
std::optional<std::string> read_kernel_text(const std::string& path, size_t limit = 1 << 20);

// The same; empty where there is nothing.
std::string kernel_text_or_empty(const std::string& path);

// Where the symbolic link leads, as readlink(2) says; empty when it cannot be read.
std::string link_target_or_empty(const std::string& path);

// The text without its blanks and line ends at both sides.
std::string_view trimmed(std::string_view text);

// The first line of `text` and what follows it: takes the line off. Nothing at the end.
std::optional<std::string_view> take_line(std::string_view& text);

// The first blank-separated word of `text`, taken off; empty when there is none.
std::string_view take_word(std::string_view& text);

// Value of the first line "Key:   value" (/proc/PID/status, /proc/meminfo), trimmed.
std::optional<std::string_view> status_field(std::string_view text, std::string_view key);
// The same as a number: leading decimal digits of the value, so that "12 kB" is 12.
std::optional<uint64_t> status_number(std::string_view text, std::string_view key);
// The same in bytes, of a value in "kB". Nothing when it overflows.
std::optional<uint64_t> status_bytes(std::string_view text, std::string_view key);

// All of `text`, trimmed, as an unsigned number. Nothing for anything else.
std::optional<uint64_t> parse_number(std::string_view text, int base = 10);

}  // namespace heapsnap
