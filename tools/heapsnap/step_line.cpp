#include "tools/heapsnap/step_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <system_error>
#include <utility>

#include "tools/heapsnap/error_output.h"

namespace heapsnap {

namespace {
constexpr std::chrono::milliseconds kFirstDrawn{500};
constexpr std::chrono::milliseconds kDrawnEvery{200};
}  // namespace

StepLine::StepLine(std::string first, unsigned steps) : steps_(steps), name_(std::move(first)) {
  if (::isatty(STDERR_FILENO) != 1) return;
  try {
    thread_ = std::thread([this] { draw_until_end(); });
  } catch (const std::system_error&) {
    // Where no thread can be started the work goes on without the line.
  }
}

void StepLine::step(std::string name) {
  const std::lock_guard lock(mutex_);
  name_ = std::move(name);
  ++number_;
}

void StepLine::end() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void StepLine::draw_until_end() {
  std::unique_lock lock(mutex_);
  if (ended_.wait_for(lock, kFirstDrawn, [this] { return has_ended_; })) return;
  do {
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin_);
    const std::string place = steps_ == 0 ? "" : fmt::format(" ({} of {})", number_, steps_);
    print_notice(fmt::format("\r\033[K{}{}, {} s", name_, place, seconds.count()));
    std::fflush(stderr);
  } while (!ended_.wait_for(lock, kDrawnEvery, [this] { return has_ended_; }));
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

}  // namespace heapsnap
