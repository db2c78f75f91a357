// Roots: the words outside of malloc's memory that hold addresses in blocks, and the variables of
// language runtimes, global ones and those of functions that run.
//
// A block is alive when a path of references leads to it from a root. What holds a root is its
// place: a variable, the stack frame of a thread, a register, a mapping.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/address.h"
#include "references/reference.h"

namespace heapsnap {

// Stored in snapshots: values never change their meaning, new ones are appended.
enum class RootKind : uint8_t {
  kVariable = 0,     // writable data of a module; `name`: the variable, empty where unknown
  kThreadLocal = 1,  // static TLS of a thread; `name`: the variable, empty where unknown
  kStack = 2,        // the stack of a thread; `name`: the function of the frame
  kRegister = 3,     // `name`: "rbx"
  kMapping = 4,      // any other memory; `name`: the mapping's as the kernel gives it, or empty
  kGlobal = 5,       // a variable of a language runtime; `name`: "app.CACHE"; `module`: the runtime
  kLocal = 6,  // a variable of a function that runs; `name`: local_name.h; `module`: as kGlobal
};
inline constexpr int kRootKindCount = 7;

// The name of a thread's control block, among what is thread-local of it.
inline constexpr std::string_view kControlBlockName = "struct pthread";

const char* to_string(RootKind kind);  // "variable", "thread-local", ...

struct RootPlace {
  RootKind kind = RootKind::kMapping;
  int32_t tid = 0;     // of the thread whose stack, register, TLS or local variable it is; else 0
  std::string module;  // path of the module whose variable or function it is; else empty
  std::string name;    // demangled
  // Where its words lie; of a variable without a name, from where its module's data begins on. Null
  // for a register.
  Address begin;
  uint64_t size = 0;  // 0: not known
  // What `begin` is in the module's file: its virtual address. Same in each process that loads it.
  // Of a stack frame, where its function begins there; of a local variable, the address of what the
  // runtime runs, which is the same for all calls of a function. 0: not known.
  uint64_t module_offset = 0;
  bool operator==(const RootPlace&) const = default;
};

// What tells a place without a name from others of its kind and module: of a thread-local variable
// of a module its offset there, which is the same in each thread; else where it lies.
uint64_t position_of(const RootPlace& place);

struct Root {
  uint32_t place = 0;   // index into the list of places
  uint64_t offset = 0;  // of the word, from the place's begin
  BlockNumber target = kNoBlock;
  bool interior = false;  // as of a reference
  bool operator==(const Root&) const = default;
};

}  // namespace heapsnap
