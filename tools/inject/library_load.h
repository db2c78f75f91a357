// Loads a shared library into a running process and calls one of its functions there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "platform/linux/inject/injected_thread.h"
#include "target/target.h"
#include "tools/inject/c_library.h"

namespace heapsnap {

// A function of a library, and what its argument points to.
struct LibraryCall {
  std::string function;
  std::vector<std::byte> argument;
};

struct LibraryLoad {
  std::string name;  // "libheapsnap_tracker.so": how it appears in /proc/PID/maps
  std::span<const std::byte> bytes;
  LibraryCall call;
  // System calls that the function makes, as InjectedWork has them.
  std::vector<SystemCall> system_calls{};
  std::vector<SystemCall> optional_system_calls{};
  uint64_t address_space = 0;  // that it maps, at most
  std::string last_resort{};   // as CallerTask has it
};

struct LibraryCallResult {
  int64_t value = 0;  // what the function returned, as an int
  InjectionResult injection;
};

// By dlopen(RTLD_NOW | RTLD_LOCAL) on a thread made for it, from a file in memory which that thread
// makes itself: no file of ours has to be visible to the target, and none is opened that it names.
// One that sees no /proc (a bare chroot) makes a file in its own root folder instead, and removes
// it when it is loaded. The library stays. Throws Error{kUnsupported} with the message of the
// target's dlerror() when it cannot be loaded, and as run_on_injected_thread().
//
// The loader keeps a library under the name by which it was opened, and debuggers open that name in
// their own process, where /proc/self/fd/3 is another file, a pipe perhaps. So
//   - while it is being loaded the name goes by way of /proc/self/task/TID, TID being that of the
//     thread that loads it: nobody else has such a task;
//   - then the loader's name for it becomes what /proc/PID/maps says,
//     "/memfd:libheapsnap_tracker.so (deleted)", which is no file.
LibraryCallResult load_library(Target& target, const CLibrary& libc, const LibraryLoad& load);

// The same for a library that is loaded already, or is just being loaded by somebody else: waits
// for that. `name` is the loader's for it; the bytes of `load` are not looked at. The loader's
// count of who has opened it is afterwards what it was.
LibraryCallResult call_library(Target& target, const CLibrary& libc, const std::string& name,
                               const LibraryLoad& load);

// Calls a function at a known address, which takes a number, on such a thread.
LibraryCallResult call_function(Target& target, const CLibrary& libc, Address function,
                                uint64_t argument);

}  // namespace heapsnap
