// Demangles names of C++ and Rust functions.
#pragma once

#include <string>

namespace heapsnap {

// `name` itself when it is not mangled. Extremely long names stay mangled: the demangler's work
// grows faster than the name.
std::string demangled(const char* name);

}  // namespace heapsnap
