#include "tools/collect/own_host.h"

#include <sys/utsname.h>

#include "store/snapshot_name.h"

namespace heapsnap {

std::string own_host_folder() {
  utsname host{};
  return host_folder(::uname(&host) == 0 ? host.nodename : "");
}

}  // namespace heapsnap
