// Two threads of heapsnap's own that each have processors of their own.
//
// Left to itself, the kernel starts a thread on the processor of the one that starts it where the
// others have work, and may leave both there for tens of milliseconds: they then take turns, and
// what takes 75 ms takes 150.
#pragma once

#include <sched.h>

#include <functional>
#include <thread>

namespace heapsnap {

// While it lives, the thread that made it keeps to every other one of the processors that it may
// run on, and threads that it starts here to the rest. Where there is only one, or the kernel
// refuses, nothing changes.
class ThreadsApart {
 public:
  ThreadsApart();
  ThreadsApart(const ThreadsApart&) = delete;
  ThreadsApart& operator=(const ThreadsApart&) = delete;
  // On the thread that made it.
  ~ThreadsApart();

  // start_helper_thread() on the rest. Throws std::system_error if no thread can be started.
  std::thread start(std::function<void()> body) const;

 private:
  bool are_apart_ = false;
  cpu_set_t all_ = {};
  cpu_set_t rest_ = {};
};

}  // namespace heapsnap
