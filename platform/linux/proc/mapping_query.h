// One mapping of a process as it is now, without reading all the others.
#pragma once

#include <optional>

#include "platform/linux/proc/proc_fs.h"
#include "target/mapping.h"

namespace heapsnap {

// The mapping that contains `address`; nullopt if there is none. Uses the ioctl PROCMAP_QUERY
// (Linux 6.11) or, where that is missing, reads all of maps. Fills in only the range, permissions
// and name.
std::optional<Mapping> query_mapping(const ProcFs& proc, int tid, Address address);

}  // namespace heapsnap
