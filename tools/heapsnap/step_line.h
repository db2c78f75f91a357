// One line on a terminal that shows which step long work is at, and for how long it has been going
// on; nothing anywhere else.
//
//   what owns the memory (3 of 6), 12 s
//
// For work whose share that is done nobody can tell, such as a walk over a graph; progress_line.h
// is for the rest. A thread draws, so that the line goes on whatever the work does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace heapsnap {

class StepLine {
 public:
  // `steps`: how many there will be, the first one included; 0: it is not said.
  explicit StepLine(std::string first, unsigned steps = 0);
  StepLine(const StepLine&) = delete;
  StepLine& operator=(const StepLine&) = delete;
  ~StepLine() { end(); }

  void step(std::string name);
  // Wipes the line: to be called before anything is printed. Nothing is drawn from then on.
  void end();

 private:
  void draw_until_end();

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const unsigned steps_;
  std::mutex mutex_;  // of what follows
  std::condition_variable ended_;
  bool has_ended_ = false;
  unsigned number_ = 1;
  std::string name_;
  std::thread thread_;  // none where there is no terminal
};

}  // namespace heapsnap
