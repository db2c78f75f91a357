// heapsnap eject PID
#pragma once

#include <string>
#include <vector>

namespace heapsnap {

int run_eject(const std::vector<std::string>& arguments);

}  // namespace heapsnap
