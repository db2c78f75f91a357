// Which module of a process is CRuby, and of which version.
//
// libruby, or a ruby without it, exports the constants rb_cObject and rb_cRubyVM and its version;
// also where it has been stripped. The state of the interpreter (rb_vm_t) is exported up to 3.2 and
// not since:
//
//   .bss  | ... | ruby_current_vm_ptr | ...      the one pointer such that
//                        |
//                        v
//                   rb_vm_t.self  -->  T_DATA | rb_cRubyVM | type | 1 | data
//                        ^                                               |
//                        +-----------------------------------------------+
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "references/loaded_modules.h"
#include "runtime/ruby/ruby_layout.h"
#include "target/target.h"

namespace heapsnap {

struct RubyPlace {
  std::string module;                      // path
  std::string version;                     // "3.1.2"; empty: cannot be read
  Address object_class;                    // rb_cObject
  Address kernel_module;                   // rb_mKernel
  Address machine_class;                   // rb_cRubyVM
  Address string_class;                    // rb_cString
  std::vector<AddressRange> data;          // the module's writable segments
  std::vector<const RubyLayout*> layouts;  // to be tried; none: see why_not
  std::string why_not;                     // one clause
};

// Modules that export all of that: mostly none. Reads files, and nothing of the target but its
// maps.
std::vector<RubyPlace> find_rubies(Target& target, const LoadedModules& modules);

// The state of an interpreter.
struct RubyMachine {
  Address vm;           // rb_vm_t
  Address space;        // rb_objspace_t
  std::string why_not;  // one clause: what does not fit
};

// Finds it in the module's data, as `layout` says. Throws nothing but what reading throws.
RubyMachine find_ruby_machine(Target& target, const RubyPlace& place, const RubyLayout& layout);

}  // namespace heapsnap
