// Loads a shared library into a running process and calls one of its functions there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "platform/linux/injected_thread.h"
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
};

struct LibraryCallResult {
  int64_t value = 0;  // what the function returned, as an int
  InjectionResult injection;
};

// By dlopen(RTLD_NOW | RTLD_LOCAL) from a file in memory, on a thread made for it: no file of ours
// has to be visible to the target. The library stays. Throws Error{kUnsupported} with the message
// of the target's dlerror() when it cannot be loaded, and as run_on_injected_thread().
LibraryCallResult load_library(Target& target, const CLibrary& libc, const LibraryLoad& load);

// The same for a library that is loaded already, or is just being loaded by somebody else: waits
// for that. `name` is the loader's for it; the bytes of `load` are not looked at.
LibraryCallResult call_library(Target& target, const CLibrary& libc, const std::string& name,
                               const LibraryLoad& load);

// Calls a function at a known address, which takes a number, on such a thread.
LibraryCallResult call_function(Target& target, const CLibrary& libc, Address function,
                                uint64_t argument);

}  // namespace heapsnap
