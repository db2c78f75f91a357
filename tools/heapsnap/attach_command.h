// heapsnap attach PID
#pragma once

#include <string>
#include <vector>

namespace heapsnap {

int run_attach(const std::vector<std::string>& arguments);

}  // namespace heapsnap
