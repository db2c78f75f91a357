// What a comparison of snapshots calls its kinds of sums and their rows, on a screen.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analysis/snapshot_diff.h"

namespace heapsnap {

const char* title_of(DiffBy by);
// "owners", in notes.
const char* plural_of(DiffBy by);
// What the rows count besides bytes.
const char* counted_in(DiffBy by);
// Of a row `depth` below one of its own; begins with a blank there: printable.
std::string row_label(DiffBy by, const DiffRow& row, size_t depth);
// Makes labels of rows narrower: functions so that different ones stay different, others by their
// ends.
std::vector<std::string> fitted_labels(DiffBy by, const std::vector<std::string>& labels,
                                       size_t width);
// "a", "a and b", "a, b and c"
std::string joined(const std::vector<std::string>& words);

}  // namespace heapsnap
