// The path by which a thread of the target names a file that only its descriptor refers to.
//
//   /proc/self/task/././//.4711/fd/7      4711: the tid of the thread
//
// It names that file for the threads of the target while the thread lives, and no file for any
// other process: none has such a task. (/proc/self/fd/7 would be another file for each process that
// opens it.) Slashes and dots encode a random number, so that no two paths are alike.
#pragma once

#include <cstddef>

#include "platform/linux/inject/call_list.h"

namespace heapsnap {

// Functions of the target's C library.
struct DescriptorPathFunctions {
  Address readlink;
  Address base_name;
  Address sprintf;
};

// Adds the steps that write the path of the descriptor that step `file` has opened, for the thread
// that executes them; returns the path's address. It has more than `least_length` characters.
CallList::Value add_descriptor_path(CallList& calls, const DescriptorPathFunctions& functions,
                                    CallList::Step file, size_t least_length);

}  // namespace heapsnap
