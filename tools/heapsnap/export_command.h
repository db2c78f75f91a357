// heapsnap export SNAPSHOT --format FORMAT
#pragma once

#include <string>
#include <vector>

namespace heapsnap {

int run_export(const std::vector<std::string>& arguments);

}  // namespace heapsnap
