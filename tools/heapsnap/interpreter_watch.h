// Waits until a program that was started with the tracker runs an interpreter, and tells the
// tracker where it has its frames (tools/inject/interpreter_frames.h). Also when the program
// executes another one.
//
// What is allocated before that, in the first milliseconds of the interpreter, has native frames
// only.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace heapsnap {

class InterpreterWatch {
 public:
  explicit InterpreterWatch(int pid) : pid_(pid), thread_([this] { run(); }) {}
  InterpreterWatch(const InterpreterWatch&) = delete;
  InterpreterWatch& operator=(const InterpreterWatch&) = delete;
  // Says why there are no such frames, if there are none.
  ~InterpreterWatch();

 private:
  void run();
  // Whether there is nothing to do for the program that runs now.
  bool look();
  bool look_at(int pid);

  int pid_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool is_ending_ = false;
  // Of the thread, and read when it has ended.
  bool has_told_ = false;
  std::string why_not_ = "no Python and no Ruby ran in it";
  std::thread thread_;
};

}  // namespace heapsnap
