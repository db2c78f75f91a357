// Which module of a process is a Python interpreter, and of which version.
//
// Since 3.7 CPython exports _PyRuntime, the root of all its state, from the program or from
// libpython*.so, and its size; also where it has been stripped. Since 3.11 it exports Py_Version,
// too; before, the name of its file says which version it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "references/loaded_modules.h"
#include "runtime/python/python_layout.h"
#include "target/target.h"

namespace heapsnap {

struct PythonPlace {
  std::string module;                    // path
  std::string version;                   // "3.11.2", "3.9"; empty: unknown
  Address runtime;                       // _PyRuntime
  uint64_t runtime_size = 0;             // of it: not always the layout's
  std::vector<AddressRange> data;        // the module's writable segments
  const PythonLayout* layout = nullptr;  // none: see why_not
  std::string why_not;                   // one clause
};

// Modules that are interpreters: mostly none. Reads files only.
std::vector<PythonPlace> find_pythons(const LoadedModules& modules);

// Whether the runtime's state in `target` is what the layout says, and where the states of its
// interpreters are. Throws nothing but what reading throws; gives why it is refused, empty: it is
// not.
std::string check_python(Target& target, const PythonPlace& place,
                         std::vector<Address>* interpreters);
// Whether these states are laid out as the layout says, as far as can be told: the same in all
// builds with a _PyRuntime of that size; since 3.13, it says itself where some of it is.
bool has_known_interpreters(Target& target, const PythonPlace& place);

}  // namespace heapsnap
