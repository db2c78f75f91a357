// A thread that does nothing but trace.
//
// ptrace(2) ties a tracee to the thread that attached to it: no other thread of heapsnap may make
// requests for it, and when that thread exits, the kernel detaches all of its tracees, whatever
// state they are in. PTRACE_DETACH cannot do that: it fails for a tracee that is not stopped, such
// as one in uninterruptible sleep. So tracing has a thread of its own, and ending that thread
// always works.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace heapsnap {

class TracerThread {
 public:
  // Throws Error{kNotPermitted} if no thread can be started.
  TracerThread();
  TracerThread(const TracerThread&) = delete;
  TracerThread& operator=(const TracerThread&) = delete;
  // Ends the thread: the kernel detaches whatever it still traces.
  ~TracerThread();

  // Runs `work` on the thread and returns when it is done; throws what it throws. All signals are
  // blocked there. One caller at a time.
  void run(const std::function<void()>& work);
  // Begins `work`, which throws nothing, on the thread once what was begun before is done: code of
  // the copy, which makes no BlockingCall.
  void start(std::function<void()> work);
  // Waits until it is done.
  void wait();

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // guarded by mutex_, like all below; empty: none is waiting
  bool done_ = true;            // what was begun
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace heapsnap
