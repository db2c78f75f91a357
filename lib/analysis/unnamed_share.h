// How much memory is charged to functions without a name: those of stripped modules.
#pragma once

#include <string>

#include "analysis/stack_groups.h"

namespace heapsnap {

struct UnnamedShare {
  double share = 0;    // of the live bytes that are charged to any function, 0 to 1
  std::string module;  // the label of the one with the most of them; empty if there are none
};

UnnamedShare unnamed_share(const FunctionGroups& groups);

}  // namespace heapsnap
