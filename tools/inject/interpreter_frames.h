// Tells a tracker in a running process where the interpreter has its frames, by writing into the
// tracker's Directory. The tracker reads it at its next allocation; nothing is called.
#pragma once

#include "platform/linux/proc/memory_writer.h"
#include "runtime/interpreter_layout.h"
#include "target/target.h"
#include "tracker/table_layout.h"

namespace heapsnap {

// The one whose frames can be read. Throws Error{kUnsupported} where there is none, with the reason
// of the first that cannot.
InterpreterPlace require_interpreter(Target& target);

// The memory of the program that process `pid` runs now: another one that it executes is not
// written to. So the Directory has to be looked at afterwards.
class TrackerMemory {
 public:
  // Throws TargetRefusal.
  explicit TrackerMemory(int pid);

  // False: it cannot be written.
  bool write(const tracker::Directory& directory, const tracker::InterpreterLayout& layout);

 private:
  MemoryWriter writer_;
};

}  // namespace heapsnap
