// A thread that does nothing but trace.
//
// ptrace(2) ties a tracee to the thread that attached to it: no other thread of heapsnap may ask
// anything of it, and when that thread ends, the kernel lets all of its tracees go, whatever state
// they are in. PTRACE_DETACH cannot do that: it is refused for a tracee that is not stopped, for
// instance one that sleeps uninterruptibly. So tracing has a thread of its own, and ending that
// thread is the way out that always works.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace heapsnap {

class TracerThread {
 public:
  // Throws Error{kInternal} when no thread can be had.
  TracerThread();
  TracerThread(const TracerThread&) = delete;
  TracerThread& operator=(const TracerThread&) = delete;
  // Ends the thread: the kernel detaches what it still traces.
  ~TracerThread();

  // Runs `work` on the thread and returns when it is done; throws what it throws. All signals are
  // blocked there. One caller at a time.
  void run(const std::function<void()>& work);

  // Until it gives false, `chore` is called about every millisecond while there is no work.
  void keep_calling(std::function<bool()> chore);

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;  // guarded by mutex_, as all below
  std::function<bool()> chore_;
  bool done_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace heapsnap
