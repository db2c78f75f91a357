#include "base/resource_limit.h"

#include <sys/resource.h>
#include <unistd.h>

namespace heapsnap {

namespace {

rlimit limits_of(int resource) {
  rlimit limits{RLIM_INFINITY, RLIM_INFINITY};
  ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limits);
  return limits;
}

}  // namespace

std::optional<uint64_t> resource_limit(int resource) {
  const rlimit limits = limits_of(resource);
  if (limits.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limits.rlim_cur;
}

bool may_raise_limit(int resource) {
  return limits_of(resource).rlim_max == RLIM_INFINITY || ::geteuid() == 0;
}

}  // namespace heapsnap
