// The functions of an interpreted program that were seen in stacks (FunctionRecord of
// table_layout.h). What names them is copied at first sight, while they run: later their code may
// be deleted.
//
// All of it is under one lock, which the interpreter's own lock keeps from being waited for: who
// finds it taken nevertheless goes without. A thread that jumps out of a signal handler never gives
// it back, and each event that waited for it would take a second.
#pragma once

#include <cstdint>

#include "tracker/checked_memory.h"
#include "tracker/interpreter_walk.h"

namespace heapsnap::tracker {

// Makes the table, empty. False: no memory.
bool create_function_table();
// Gives working memory back, and the lock; no event is under way.
void clear_function_table();

// False: not in time. An event waits for some microseconds, a fork for about a second.
bool lock_function_table_soon();
bool lock_function_table();
void unlock_function_table();
void reset_function_table_lock();

// Under the lock: the function's index, kUnknownFunction when there is no room for it.
uint32_t index_of_function(const InterpreterLayout& layout, CheckedMemory& memory,
                           const InterpreterCall& call);

}  // namespace heapsnap::tracker
