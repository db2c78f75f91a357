// A series of figures as one line of eighths of a block: "▁▂▄▆█|▁▂▃", with a bar where a new
// run of the program begins.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace heapsnap {

// `runs`: as `values`, the run that each belongs to. At most `width` columns; what is unknown is a
// blank. The lowest value is the lowest block, the highest the highest.
std::string sparkline(std::span<const std::optional<double>> values, std::span<const size_t> runs,
                      size_t width);

}  // namespace heapsnap
