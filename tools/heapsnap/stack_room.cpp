#include "tools/heapsnap/stack_room.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdlib>

namespace heapsnap {

namespace {

// Demangling and symbol tables take some hundred KB at most.
constexpr rlim_t kEnough = 2 << 20;

void* work_and_exit(void* work) {
  std::exit((*static_cast<const std::function<int()>*>(work))());
}

}  // namespace

void exit_with(const std::function<int()>& work) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kEnough) std::exit(work());
  pthread_attr_t roomy;
  pthread_t thread;
  ::pthread_attr_init(&roomy);
  ::pthread_attr_setstacksize(&roomy, kEnough);
  ::pthread_setattr_default_np(&roomy);
  const int refusal =
      ::pthread_create(&thread, &roomy, work_and_exit, const_cast<std::function<int()>*>(&work));
  if (refusal != 0) std::exit(work());
  // Signals are for the thread that works.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  ::pthread_join(thread, nullptr);
  std::abort();  // not come to
}

}  // namespace heapsnap
