// Threads that do the same work: of one name, or of names that differ in numbers only.
//
//   worker-1, worker-2, ..., worker-64    ──►  worker-*
#pragma once

#include <string>
#include <string_view>

namespace heapsnap {

// The name with a star for each of its numbers.
std::string thread_family(std::string_view name);

}  // namespace heapsnap
