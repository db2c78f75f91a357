#include "platform/linux/self/helper_thread.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

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

}  // namespace heapsnap
