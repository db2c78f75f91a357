// Demangles names of C++ and Rust.
#pragma once

#include <string>

namespace heapsnap {

// `name` itself when it is not mangled. Extremely long names stay mangled: the demangler's work
// grows faster than the name.
std::string demangled(const char* name);
// The same of a variable, as its source calls it: "g_names" of "g_names[abi:cxx11]".
std::string demangled_variable(const char* name);

}  // namespace heapsnap
