#include "platform/linux/inject/thread_calls.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
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
                                 SystemCall{SYS_rseq, {0, 32, 0, 0x53053053, 0, 0}}}) {
    task.optional_calls.push_back(call);
  }
  // The allocator's, since all that such a thread is created for allocates: a heap that grows or
  // shrinks, a new arena (their number depends on that of the processors), glibc's first malloc of
  // a process.
  constexpr auto kHere = static_cast<uint64_t>(AT_FDCWD);
  constexpr uint64_t kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  for (const SystemCall& call : {
           SystemCall{SYS_brk, {}},
           SystemCall{SYS_mmap, {0, kPage, PROT_READ | PROT_WRITE, kAnonymous, ~uint64_t{0}, 0}},
           SystemCall{SYS_mmap, {0, kPage, PROT_NONE, kAnonymous, ~uint64_t{0}, 0}},
           SystemCall{SYS_mprotect, {kPage, kPage, PROT_READ | PROT_WRITE, 0, 0, 0}},
           SystemCall{SYS_madvise, {0, kPage, MADV_DONTNEED, 0, 0, 0}},
           SystemCall{SYS_madvise, {0, kPage, MADV_HUGEPAGE, 0, 0, 0}},
           SystemCall{SYS_prctl, {PR_SET_VMA, PR_SET_VMA_ANON_NAME, 0, kPage, 0, 0}},
           SystemCall{SYS_sched_getaffinity, {0, kPage, 0, 0, 0, 0}},
           SystemCall{SYS_openat, {kHere, 0, O_RDONLY | O_CLOEXEC, 0, 0, 0}},
           SystemCall{SYS_open, {0, O_RDONLY | O_CLOEXEC, 0, 0, 0, 0}},  // glibc 2.25 and before
           SystemCall{SYS_read, {3, 0, kPage, 0, 0, 0}},
           SystemCall{SYS_close, {3, 0, 0, 0, 0, 0}},
           SystemCall{SYS_getrandom, {0, sizeof(uint64_t), GRND_NONBLOCK, 0, 0, 0}},
       }) {
    task.optional_calls.push_back(call);
  }
}

}  // namespace heapsnap
