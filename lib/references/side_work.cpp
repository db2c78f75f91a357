#include "references/side_work.h"

#include <system_error>
#include <utility>

namespace heapsnap {

SideWork::SideWork(const StartThread& start, std::function<void()> work) : work_(std::move(work)) {
  if (start) {
    try {
      thread_ = start([this] { run(); });
      return;
    } catch (const std::system_error&) {
      // Then on this thread.
    }
  }
  run();
}

SideWork::~SideWork() {
  if (thread_.joinable()) thread_.join();
}

void SideWork::finish() {
  if (thread_.joinable()) thread_.join();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void SideWork::run() noexcept {
  try {
    work_();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

}  // namespace heapsnap
