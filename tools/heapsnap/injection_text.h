// What inject, eject and trim say of what they did to a process; notes and next steps of all
// commands.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "platform/linux/inject/injected_thread.h"
#include "tools/inject/allocator_hooks.h"
#include "tools/inject/heap_look.h"

namespace heapsnap {

// A sentence, and a command in a line of its own.
struct WhatNext {
  std::string why;
  std::string command;
};

// Under the heading "What next".
void print_what_next(const std::vector<WhatNext>& steps);

// Appends how to record the functions of process `pid`'s interpreter, where that can be done.
void add_step_with_functions(std::vector<WhatNext>& steps, int pid);

// "thread 4711 paused for 0.51 ms, thread 4711 for 0.20 ms"
std::string stolen_text(const std::vector<StolenTime>& stolen);

// "10 entry points of the allocator patched, 12 threads paused for 1.02 ms"
std::string hooks_text(const HookChange& change);

// A line for each time that the process was paused to check malloc's state.
void print_look_pauses(const std::vector<LookPause>& pauses);

void print_notes(const std::vector<std::string>& notes);

}  // namespace heapsnap
