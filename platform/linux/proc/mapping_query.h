// One mapping of a process as it is at this moment, without reading all the others.
#pragma once

#include <optional>

#include "platform/linux/proc/proc_fs.h"
#include "target/mapping.h"

namespace heapsnap {

// The mapping that holds `address`; nothing when none does. Asks by the ioctl PROCMAP_QUERY (Linux
// 6.11), where that is missing by reading all of maps. Its range, permissions and name are filled
// in, and nothing else.
std::optional<Mapping> query_mapping(const ProcFs& proc, int tid, Address address);

}  // namespace heapsnap
