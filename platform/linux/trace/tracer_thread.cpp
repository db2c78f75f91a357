#include "platform/linux/trace/tracer_thread.h"

#include <chrono>
#include <exception>
#include <utility>

#include "platform/linux/proc/blocking_call.h"
#include "platform/linux/self/helper_thread.h"
#include "platform/linux/trace/late_tracees.h"

namespace heapsnap {

TracerThread::TracerThread() : thread_(start_needed_thread([this] { serve(); })) {}

TracerThread::~TracerThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void TracerThread::run(const std::function<void()>& work) {
  std::exception_ptr thrown;
  start([&] {
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
  });
  wait();
  if (thrown) std::rethrow_exception(thrown);
}

void TracerThread::start(std::function<void()> work) {
  std::unique_lock lock(mutex_);
  if (!done_) {
    const BlockingCall waiting(kWorkOfCopy);
    changed_.wait(lock, [this] { return done_; });
  }
  work_ = std::move(work);
  done_ = false;
  changed_.notify_all();
}

void TracerThread::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_; });
}

void TracerThread::serve() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (work_) {
      const auto work = std::exchange(work_, nullptr);
      lock.unlock();
      work();
      look_after_late_tracees();
      lock.lock();
      done_ = true;
      changed_.notify_all();
    } else if (has_late_tracees()) {
      changed_.wait_for(lock, std::chrono::milliseconds(1));
      if (!work_ && !ending_) look_after_late_tracees();
    } else {
      changed_.wait(lock);
    }
  }
}

}  // namespace heapsnap
