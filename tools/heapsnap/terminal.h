// What the terminal at the other end can do.
#pragma once

#include <cstdint>
#include <string>

namespace heapsnap {

enum class ColorChoice { kAuto, kAlways, kNever };

// "auto", "always" or "never"; throws Error{kUsage} for anything else.
ColorChoice parse_color_choice(const std::string& text);

// Whether to colour what goes to `fd`: kAuto colours a terminal unless NO_COLOR is set or TERM is
// "dumb" (https://no-color.org).
bool use_color(ColorChoice choice, int fd);

// How wide lines on `fd` may be: COLUMNS of the environment if it is a number, else the width of
// the terminal there, else 80; within [60, 200].
unsigned terminal_width(int fd);
// How many lines a screen on `fd` has: LINES of the environment if it is a number, else the height
// of the terminal there, else 24.
unsigned terminal_height(int fd);
// `asked_for`, or the above if that is 0. Throws Error{kUsage} for fewer than 60 columns, which
// tables do not fit.
unsigned output_width(int fd, uint64_t asked_for);

}  // namespace heapsnap
