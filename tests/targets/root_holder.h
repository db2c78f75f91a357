// What the parts of root_holder tell each other: the program, what it links and what it loads.
#pragma once

namespace root_holder {

// Says "KIND NAME ADDRESS [MORE]", for the test to compare with.
void say(const char* kind, const char* name, const void* address, const char* more = "");

// Of a library that the program links: in static thread-local storage.
extern thread_local void* linked_word;
void say_linked();

// In a translation unit without RTTI.
void make_plain_objects();

}  // namespace root_holder
