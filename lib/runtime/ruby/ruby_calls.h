// Where the tracker finds the calls of Ruby's methods and blocks in a thread.
//
//   rb_vm_t ──► first rb_ractor_t ──► threads.running_ec   the context that has the lock
//                                 └─► threads.main         rb_thread_t: ec, its pthread_t
//
// Each thread has its own context in a thread-local variable, of which only some releases export
// the symbol. It is the word below the first thread's control block that holds that thread's
// context.
#pragma once

#include "runtime/interpreter_layout.h"
#include "runtime/ruby/ruby_place.h"

namespace heapsnap {

// With why_not set where the release's frames are not known, or the process's are others.
InterpreterPlace ruby_calls(Target& target, const LoadedModules& modules, const RubyPlace& place);

}  // namespace heapsnap
