// Adds the frames of an interpreter to a stack, where the thread runs one and the Directory says
// how it is laid out.
#pragma once

#include <cstdint>

namespace heapsnap::tracker {

// Makes room for them, before they are asked for. False: no memory.
bool prepare_interpreter_frames();
// Gives that back; no event is under way.
void clear_interpreter_frames();

// The stack `stack` with the frames of the interpreter inside of it; `stack` itself where the
// calling thread has none, does not have the interpreter's lock, or they cannot be read (counted).
// To be called within an event.
uint32_t with_interpreter_frames(uint32_t stack);

}  // namespace heapsnap::tracker
