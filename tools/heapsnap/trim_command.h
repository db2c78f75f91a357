// heapsnap trim PID
#pragma once

#include <string>
#include <vector>

namespace heapsnap {

int run_trim(const std::vector<std::string>& arguments);

}  // namespace heapsnap
