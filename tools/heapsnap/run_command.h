// heapsnap run -- COMMAND
#pragma once

#include <string>
#include <vector>

namespace heapsnap {

int run_run(const std::vector<std::string>& arguments);

}  // namespace heapsnap
