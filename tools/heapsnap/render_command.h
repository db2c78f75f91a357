// heapsnap render SNAPSHOT -o PICTURE
#pragma once

#include <string>
#include <vector>

namespace heapsnap {

int run_render(const std::vector<std::string>& arguments);

}  // namespace heapsnap
