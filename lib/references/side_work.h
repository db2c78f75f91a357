// Work beside that of this thread, on another one where one can be started.
#pragma once

#include <exception>
#include <functional>
#include <thread>

#include "references/piece_pipeline.h"

namespace heapsnap {

class SideWork {
 public:
  // Begins it; where no thread is started, does all of it. `start`: empty for no other thread.
  SideWork(const StartThread& start, std::function<void()> work);
  SideWork(const SideWork&) = delete;
  SideWork& operator=(const SideWork&) = delete;
  // Waits for its end.
  ~SideWork();

  // Waits for its end, and throws what it threw.
  void finish();

 private:
  void run() noexcept;

  std::function<void()> work_;
  std::exception_ptr failure_;
  std::thread thread_;  // none: it is done
};

}  // namespace heapsnap
