#include "runtime/interpreter_layout.h"

#include "runtime/python/python_calls.h"
#include "runtime/ruby/ruby_calls.h"

namespace heapsnap {

std::vector<InterpreterPlace> find_interpreters(Target& target, const LoadedModules& modules) {
  std::vector<InterpreterPlace> found;
  for (const PythonPlace& place : find_pythons(modules)) {
    found.push_back(python_calls(target, modules, place));
  }
  for (const RubyPlace& place : find_rubies(target, modules)) {
    found.push_back(ruby_calls(target, modules, place));
  }
  return found;
}

}  // namespace heapsnap
