// Where the tracker finds the calls of Python's functions in a thread.
//
//   3.11   _PyRuntime.gilstate   the key by which a thread has its state, and the state of the
//                                thread that has the lock
//   3.12   _PyRuntime            the key
//          the interpreter       _gil: whether it is locked, and whose state has it
//
// Both lie in the module's own data, since there is one interpreter, which is part of _PyRuntime.
#pragma once

#include "runtime/interpreter_layout.h"
#include "runtime/python/python_place.h"

namespace heapsnap {

// With why_not set where the version's frames are not known, or the process's are others.
InterpreterPlace python_calls(Target& target, const LoadedModules& modules,
                              const PythonPlace& place);

}  // namespace heapsnap
