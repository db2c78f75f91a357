// How much of a number of bytes costs memory, by what is known of the pages that they lie in.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/runtime_model.h"
#include "target/page_residency.h"

namespace heapsnap {

// `bytes` that lie evenly in pages with these states.
RuntimeArea::Amount amount_in(uint64_t bytes, std::span<const PageState> pages);

}  // namespace heapsnap
