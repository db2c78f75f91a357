// A library that root_holder links.
#include "root_holder.h"

namespace root_holder {

thread_local void* linked_word = nullptr;
void* linked_variable[3] = {};

void say_linked() {
  say("thread-local", "root_holder::linked_word", &linked_word);
}

}  // namespace root_holder
