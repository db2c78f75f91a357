// Where the kernel's text files are; tests put folders with fixtures in their place.
#pragma once

#include <string>

namespace heapsnap {

struct KernelFiles {
  std::string proc = "/proc";
  std::string sys = "/sys";
};

}  // namespace heapsnap
