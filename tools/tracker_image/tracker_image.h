// The bytes of libheapsnap_tracker.so, which heapsnap carries in itself: where a process is to load
// it there may be no file of ours (containers, other machines' root folders).
#pragma once

#include <cstddef>
#include <span>

namespace heapsnap {

std::span<const std::byte> tracker_image();

}  // namespace heapsnap
