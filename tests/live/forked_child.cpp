#include "tests/live/forked_child.h"

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <stdexcept>

namespace heapsnap::live {

pid_t run_in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child != 0) return child;
  int code = 1;
  try {
    code = body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child: %s\n", error.what());
  } catch (...) {
    std::fputs("child: an assertion failed\n", stderr);
  }
  ::_exit(code);
}

}  // namespace heapsnap::live
