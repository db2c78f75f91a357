#include "platform/linux/self/realtime_limit.h"

#include <sys/resource.h>

#include <string>
#include <string_view>

#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

bool has_realtime_limit(int tid) noexcept {
  rlimit limit{};
  if (::prlimit(tid, RLIMIT_RTTIME, nullptr, &limit) == 0) return limit.rlim_cur != RLIM_INFINITY;
  // Of another user, without CAP_SYS_RESOURCE: what proc_pid_limits(5) shows to everybody.
  try {
    constexpr std::string_view kNone = "Max realtime timeout      unlimited ";
    const auto limits = ProcFs().try_read(tid, "limits");
    return !limits || limits->find(kNone) == std::string::npos;
  } catch (...) {
    return true;
  }
}

}  // namespace heapsnap
