#include "platform/linux/proc/system_call_names.h"

#include <sys/syscall.h>

#include <algorithm>
#include <array>

namespace heapsnap {

namespace {

struct Name {
  long number;
  const char* text;
};

constexpr long kCloseRange = 436;  // 5.9; older headers lack it

constexpr std::array kNames = {
    Name{SYS_mmap, "mmap"},
    Name{SYS_munmap, "munmap"},
    Name{SYS_mprotect, "mprotect"},
    Name{SYS_madvise, "madvise"},
    Name{SYS_memfd_create, "memfd_create"},
    Name{SYS_clone, "clone"},
    Name{SYS_clone3, "clone3"},
    Name{SYS_wait4, "wait4"},
    Name{SYS_exit, "exit"},
    Name{SYS_exit_group, "exit_group"},
    Name{SYS_rt_sigreturn, "rt_sigreturn"},
    Name{SYS_rt_sigprocmask, "rt_sigprocmask"},
    Name{SYS_rt_sigaction, "rt_sigaction"},
    Name{SYS_set_robust_list, "set_robust_list"},
    Name{SYS_rseq, "rseq"},
    Name{SYS_futex, "futex"},
    Name{SYS_openat, "openat"},
    Name{SYS_read, "read"},
    Name{SYS_pread64, "pread64"},
    Name{SYS_newfstatat, "newfstatat"},
    Name{SYS_fstat, "fstat"},
    Name{SYS_close, "close"},
    Name{SYS_prctl, "prctl"},
    Name{kCloseRange, "close_range"},
    Name{SYS_ftruncate, "ftruncate"},
    Name{SYS_gettid, "gettid"},
    Name{SYS_getpid, "getpid"},
    Name{SYS_brk, "brk"},
};

}  // namespace

std::string system_call_name(long number) {
  const std::string by_number = "system call " + std::to_string(number);
  const auto* const found = std::find_if(kNames.begin(), kNames.end(),
                                         [&](const Name& name) { return name.number == number; });
  return found == kNames.end() ? by_number : std::string(found->text) + " (" + by_number + ")";
}

}  // namespace heapsnap
