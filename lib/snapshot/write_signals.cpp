#include "snapshot/write_signals.h"

#include <cerrno>
#include <ctime>
#include <initializer_list>

namespace heapsnap {

// Both signals are sent to the writing thread itself, so holding them back in this thread and
// taking what came leaves the process's handlers alone.
WriteSignalsHeld::WriteSignalsHeld() {
  sigset_t pending;
  ::sigpending(&pending);
  ::sigemptyset(&signals_);
  for (const int signal : {SIGPIPE, SIGXFSZ}) {
    if (::sigismember(&pending, signal) == 0) ::sigaddset(&signals_, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
}

WriteSignalsHeld::~WriteSignalsHeld() {
  const int error_number = errno;
  const timespec at_once{};
  while (::sigtimedwait(&signals_, nullptr, &at_once) > 0 || errno == EINTR) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error_number;
}

}  // namespace heapsnap
