// What the terminal at the other end can do.
#pragma once

#include <string>

namespace heapsnap {

enum class ColorChoice { kAuto, kAlways, kNever };

// "auto", "always" or "never"; throws Error{kUsage} for anything else.
ColorChoice parse_color_choice(const std::string& text);

// Whether to colour what goes to `fd`: kAuto colours a terminal unless NO_COLOR is set or TERM is
// "dumb" (https://no-color.org).
bool use_color(ColorChoice choice, int fd);

// Columns of the terminal behind `fd`, within [60, 200]; 80 when it is none.
unsigned terminal_width(int fd);

}  // namespace heapsnap
