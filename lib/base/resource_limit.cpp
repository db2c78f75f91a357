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

const char* option_of_ulimit(int resource) {
  switch (resource) {
    case RLIMIT_AS: return "-v";
    case RLIMIT_DATA: return "-d";
    default: return "-f";
  }
}

std::optional<uint64_t> resource_limit(int resource) {
  const rlimit limits = limits_of(resource);
  if (limits.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limits.rlim_cur;
}

std::string how_to_raise_limit(int resource) {
  if (limits_of(resource).rlim_max == RLIM_INFINITY || ::geteuid() == 0) {
    return std::string("raise the limit: ulimit ") + option_of_ulimit(resource) + " unlimited";
  }
  const char* const option = resource == RLIMIT_AS     ? "as"
                             : resource == RLIMIT_DATA ? "data"
                                                       : "fsize";
  return std::string("raise the limit of this shell as root: sudo prlimit --pid $$ --") + option +
         "=unlimited";
}

}  // namespace heapsnap
