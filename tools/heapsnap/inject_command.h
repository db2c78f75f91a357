// heapsnap inject PID
#pragma once

#include <string>
#include <vector>

namespace heapsnap {

int run_inject(const std::vector<std::string>& arguments);

}  // namespace heapsnap
