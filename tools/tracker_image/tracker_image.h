// The bytes of libheapsnap_tracker.so, which heapsnap carries in itself: where a process is to load
// it there may be no file of ours (containers, other machines' root folders).
#pragma once

#include <cstddef>
#include <span>

#include "base/unique_fd.h"

namespace heapsnap {

std::span<const std::byte> tracker_image();

// The same in a memfd of the name "heapsnap_tracker", sealed against changes. Throws
// Error{kOutput}.
UniqueFd open_tracker_image();

}  // namespace heapsnap
