#include "platform/linux/inject/thread_calls.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/page.h"

namespace heapsnap {

namespace {

// By this signal glibc's threads ask each other to change user; pthread_create sets its handler.
constexpr uint64_t kSetIdSignal = 33;
// The clone flags of glibc's pthread_create.
constexpr uint64_t kPthreadFlags = 0x3d0f00;

}  // namespace

void add_thread_calls(CallerTask& task) {
  for (const SystemCall& call : {
           SystemCall{SYS_rt_sigreturn, {}},
           SystemCall{SYS_rt_sigprocmask, {SIG_SETMASK, 0, 0, 8, 0, 0}},
           SystemCall{SYS_rt_sigaction, {kSetIdSignal, 0, 0, 8, 0, 0}},
           SystemCall{SYS_clone, {kPthreadFlags, 0, 0, 0, 0, 0}},
           SystemCall{SYS_set_robust_list, {0, 24, 0, 0, 0, 0}},
           SystemCall{SYS_futex, {0, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0}},
           SystemCall{SYS_exit, {}},
           SystemCall{SYS_munmap, {kPage, kPage, 0, 0, 0, 0}},
       }) {
    task.calls.push_back(call);
  }
  for (const SystemCall& call : {SystemCall{SYS_clone3, {0, 88, 0, 0, 0, 0}},
                                 SystemCall{SYS_rseq, {0, 32, 0, 0x53053053, 0, 0}},
                                 SystemCall{SYS_madvise, {0, kPage, MADV_DONTNEED, 0, 0, 0}}}) {
    task.optional_calls.push_back(call);
  }
}

}  // namespace heapsnap
