// One line on a terminal that shows how far long work has come; nothing anywhere else.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace heapsnap {

class ProgressLine {
 public:
  // `what` is being done; `quiet` shows nothing at all.
  ProgressLine(std::string what, bool quiet);
  ~ProgressLine();  // wipes the line

  // Cheap to call often: the line is drawn at most ten times a second, and first after half a
  // second.
  void show(uint64_t done, uint64_t total);

 private:
  std::string what_;
  bool enabled_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace heapsnap
