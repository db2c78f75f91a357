// Names of C++ and Rust functions as people write them.
#pragma once

#include <string>

namespace heapsnap {

// `name` itself when it is not mangled. Names beyond any sense of measure stay as they are: the
// demangler's work grows faster than the name.
std::string demangled(const char* name);

}  // namespace heapsnap
