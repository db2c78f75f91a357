// heapsnap completions: completion scripts for shells.
#pragma once

#include <string>
#include <vector>

namespace heapsnap {

int run_completions(const std::vector<std::string>& arguments);

}  // namespace heapsnap
