#include "tools/inject/interpreter_frames.h"

#include <algorithm>
#include <cstddef>

#include "base/error.h"
#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

InterpreterPlace require_interpreter(Target& target) {
  std::vector<InterpreterPlace> places = find_interpreters(target, LoadedModules(target));
  const auto known = std::find_if(places.begin(), places.end(), [](const InterpreterPlace& one) {
    return one.layout.kind != tracker::kInterpreterNone;
  });
  if (known != places.end()) return std::move(*known);
  const std::string pid = std::to_string(target.process().pid);
  const std::string what = "--interpreter-frames of process " + pid;
  if (places.empty()) {
    throw Error(ErrorKind::kUnsupported, what, "there is no Python and no Ruby in it",
                "record its native frames: heapsnap inject " + pid);
  }
  throw Error(ErrorKind::kUnsupported, what, places.front().name + ": " + places.front().why_not,
              "record its native frames: heapsnap inject " + pid);
}

TrackerMemory::TrackerMemory(int pid) : writer_(ProcFs(), ProcFs().live_tid(pid).value_or(pid)) {}

bool TrackerMemory::write(const tracker::Directory& directory,
                          const tracker::InterpreterLayout& layout) {
  const Address at(directory.self + offsetof(tracker::Directory, interpreter));
  // The kind comes last: from then on threads read the rest.
  tracker::InterpreterLayout rest = layout;
  rest.kind = tracker::kInterpreterNone;
  const Address kind = at + offsetof(tracker::InterpreterLayout, kind);
  return writer_.write_value(at, rest) && writer_.write_value(kind, layout.kind);
}

}  // namespace heapsnap
