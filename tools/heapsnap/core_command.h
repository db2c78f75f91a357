// heapsnap core CORE
#pragma once

#include <string>
#include <vector>

namespace heapsnap {

int run_core(const std::vector<std::string>& arguments);

}  // namespace heapsnap
