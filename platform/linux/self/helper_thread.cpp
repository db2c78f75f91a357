#include "platform/linux/self/helper_thread.h"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

#include "base/error.h"

namespace heapsnap {

namespace {

class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

std::thread start_helper_thread(std::function<void()> body) {
  const AllSignalsBlocked blocked;  // the new thread inherits the mask
  return std::thread(std::move(body));
}

std::thread start_needed_thread(std::function<void()> body) {
  try {
    return start_helper_thread(std::move(body));
  } catch (const std::system_error& error) {
    // EAGAIN for each limit, also when there is no room for a stack (pthread_create(3)).
    throw Error(ErrorKind::kNotPermitted, "cannot start a thread of heapsnap itself",
                errno_text(error.code().value()),
                "raise the limits of heapsnap and try again: ulimit -u, ulimit -v, pids.max of its "
                "cgroup");
  }
}

}  // namespace heapsnap
