// A part of a test in a process of its own, which others can kill, and how both speak.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <functional>

namespace heapsnap::live {

// Forks; the child exits with what `body` returns. What `body` throws ends it too, with 1 and a
// message: it would otherwise go on with the parent's next test case.
pid_t run_in_child(const std::function<int()>& body);

// A pipe between this process and its child.
class Line {
 public:
  Line() { REQUIRE(::pipe2(ends_.data(), O_CLOEXEC) == 0); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() {
    for (const int end : ends_) ::close(end);
  }
  bool wait() const {
    char byte = 0;
    return ::read(ends_[0], &byte, 1) == 1;
  }
  bool pass() const { return ::write(ends_[1], "", 1) == 1; }
  int reading_end() const { return ends_[0]; }

 private:
  std::array<int, 2> ends_{};
};

}  // namespace heapsnap::live
