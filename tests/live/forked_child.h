// A part of a test in a process of its own, which others can kill.
#pragma once

#include <sys/types.h>

#include <functional>

namespace heapsnap::live {

// Forks; the child exits with what `body` returns. What `body` throws ends it too, with 1 and a
// message: it would otherwise go on with the parent's next test case.
pid_t run_in_child(const std::function<int()>& body);

}  // namespace heapsnap::live
