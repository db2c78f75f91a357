// How the heaps of all language runtimes of a process are read, whatever the languages.
//
//   find_runtimes(target, modules)      the target may run: reads files
//     place.begin(frozen, options)      a walk: checks the runtime's state in the frozen memory
//       walk.on_batch(), on_mmapped()   each chunk of malloc's walk
//       walk.take(model)                after the last one
//
// A runtime that cannot be read is in the model all the same, with what did not fit
// (Runtime::why_not).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heap/chunk.h"
#include "references/loaded_modules.h"
#include "references/runtime_objects.h"
#include "runtime/runtime_model.h"
#include "target/target.h"

namespace heapsnap {

struct RuntimeOptions {
  bool keep_texts = false;  // what the process itself wrote: queries, keys, values
  // Called now and then, if not empty: what it throws ends the walk.
  std::function<void()> check;
  // What is found for the graph of references goes there; null: nothing is wanted. Once a walk that
  // has added something is refused or throws, nothing there may be used.
  RuntimeObjects* objects = nullptr;
};

class RuntimeWalk : public ChunkSink {
 public:
  // Empty: its heap is read.
  virtual const std::string& why_not() const = 0;
  // After the last chunk. Adds one runtime, read or refused, and what it has to `model`; nothing
  // when it throws.
  virtual void take(RuntimeModel& model) = 0;
};

// A runtime that a module of the process is.
struct RuntimePlace {
  RuntimeKind kind = RuntimeKind::kUnknown;
  std::string version;  // as in Runtime
  std::string module;
  // The walk keeps `target`, which outlives it, and nothing of this place.
  std::function<std::unique_ptr<RuntimeWalk>(Target& target, const RuntimeOptions& options)> begin;
};

// All of a process: mostly none. Reads files, and nothing of the target but its maps.
std::vector<RuntimePlace> find_runtimes(Target& target, const LoadedModules& modules);

}  // namespace heapsnap
