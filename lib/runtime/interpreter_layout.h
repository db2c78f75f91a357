// Where the tracker finds the calls that an interpreter runs, as tracker::InterpreterLayout: what
// heapsnap knows of the version, and the addresses in this process.
#pragma once

#include <string>
#include <vector>

#include "references/loaded_modules.h"
#include "target/target.h"
#include "tracker/table_layout.h"

namespace heapsnap {

struct InterpreterPlace {
  std::string name;                     // "Python 3.11.2"
  std::string module;                   // path
  tracker::InterpreterLayout layout{};  // of kind kInterpreterNone: see why_not
  std::string why_not;                  // one clause
  bool may_start_later = false;         // it is only not ready yet
};

// All interpreters in a process that runs: mostly none. Reads files and a few words.
std::vector<InterpreterPlace> find_interpreters(Target& target, const LoadedModules& modules);

}  // namespace heapsnap
