// Where the kernel's text files are; tests use folders with fixtures instead.
#pragma once

#include <string>

namespace heapsnap {

struct KernelFiles {
  std::string proc = "/proc";
  std::string sys = "/sys";
};

}  // namespace heapsnap
