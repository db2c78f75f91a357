// Room on the stacks of heapsnap's own threads.
#pragma once

#include <functional>

namespace heapsnap {

// Ends the process with what `work` gives. Where the shell's limit (`ulimit -s`) leaves a stack too
// small for it, `work` runs on a thread with a larger one, and so do all threads that it starts.
// The limit stays as it is, for the programs that heapsnap starts.
[[noreturn]] void exit_with(const std::function<int()>& work);

}  // namespace heapsnap
