// Call stacks in a line each.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/stack_report_input.h"

namespace heapsnap {

// Of each of input.ranked the frame that it is charged to, in `width` columns. Where two of these
// are alike, the first frame outside of it in which the stacks differ comes with it, or the first
// one inside of it, that it called:
//
//   insert cache.cpp:25        parse:40 ← load_config        std::to_string ← main:104
//                              parse:40 ← load_data          std::map::emplace ← main:104
//
// A function that calls itself is one frame: "visit(Node*) × 12". What is the same even so is
// numbered.
std::vector<std::string> stack_labels(const StackReportInput& input, size_t width);

// The function that a stack is charged to: "parse(int)", "git+0x1a2b0()". As the target has it; ""
// of a stack without frames.
std::string charged_function(const StackReportInput& input, uint32_t stack);

}  // namespace heapsnap
