// Which module of a process is a Python interpreter, and of which version.
//
// CPython exports _PyRuntime, the root of all its state, from the program or from libpython*.so,
// and its size; also where it has been stripped. Since 3.11 it exports Py_Version, too.
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
  std::string version;                   // "3.11.2"; empty: before 3.11
  Address runtime;                       // _PyRuntime
  std::vector<AddressRange> data;        // the module's writable segments
  const PythonLayout* layout = nullptr;  // none: see why_not
  std::string why_not;                   // one clause
};

// Modules that export _PyRuntime: mostly none. Reads files, and nothing of the target but its maps.
std::vector<PythonPlace> find_pythons(Target& target, const LoadedModules& modules);

// Whether the runtime's state in `target` is what the layout says, and how many interpreters there
// are. Throws nothing but what reading throws; gives why it is refused, empty: it is not.
std::string check_python(Target& target, const PythonPlace& place, uint64_t* interpreters);

}  // namespace heapsnap
