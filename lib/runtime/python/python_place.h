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

// Whether the runtime's state in `target` is what the layout says, and how many interpreters there
// are. Throws nothing but what reading throws; gives why it is refused, empty: it is not.
std::string check_python(Target& target, const PythonPlace& place, uint64_t* interpreters);

}  // namespace heapsnap
