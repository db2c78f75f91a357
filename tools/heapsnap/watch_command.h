// heapsnap watch PID
#pragma once

#include <string>
#include <vector>

namespace heapsnap {

int run_watch(const std::vector<std::string>& arguments);

}  // namespace heapsnap
