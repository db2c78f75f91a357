#include "tools/heapsnap/interpreter_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "platform/linux/freeze/running_process.h"
#include "report/terminal_text.h"
#include "tools/heapsnap/error_output.h"
#include "tools/inject/interpreter_frames.h"
#include "tracking/tracker_directory.h"

namespace heapsnap {

namespace {

using std::chrono::milliseconds;
constexpr milliseconds kFirstPause{1};
constexpr milliseconds kLongestPause{250};

}  // namespace

InterpreterWatch::~InterpreterWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  ends_.notify_all();
  thread_.join();
  if (has_told_) return;
  print_notice(fmt::format("heapsnap: no frames of an interpreter were recorded\n  why: {}\n",
                           printable(why_not_)));
}

void InterpreterWatch::run() {
  milliseconds pause = kFirstPause;
  std::unique_lock lock(mutex_);
  while (!is_ending_) {
    lock.unlock();
    const bool is_done = look();
    lock.lock();
    // What it executes next has a tracker of its own.
    pause = is_done ? kLongestPause : std::min(pause * 5 / 4 + milliseconds(1), kLongestPause);
    ends_.wait_for(lock, pause, [this] { return is_ending_; });
  }
}

bool InterpreterWatch::look() {
  try {
    return look_at(pid_);
  } catch (const Error&) {
    // It has ended, or is being replaced by another program.
    return false;
  }
}

bool InterpreterWatch::look_at(int pid) {
  // Opened before anything is looked at: of a program that has been replaced it writes nothing.
  TrackerMemory writer(pid);
  const std::unique_ptr<Target> target = open_running_process(pid);
  const auto at = find_tracker_directory(*target);
  const auto directory = at ? read_directory(target->memory(), *at) : std::nullopt;
  if (!directory || directory->state != tracker::kStateRecording) return false;
  if (directory->interpreter.kind != tracker::kInterpreterNone) return true;
  for (const InterpreterPlace& place : find_interpreters(*target, LoadedModules(*target))) {
    if (place.layout.kind == tracker::kInterpreterNone) {
      why_not_ = place.name + ": " + place.why_not;
      continue;
    }
    if (writer.write(*directory, place.layout)) {
      has_told_ = true;
      return true;
    }
    why_not_ = "the tracker's memory in process " + std::to_string(pid) + " cannot be written";
  }
  return false;
}

}  // namespace heapsnap
