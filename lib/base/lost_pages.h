// Mapped files that lose pages while they are read: somebody truncates the file, or its disk fails.
//
// The kernel sends SIGBUS for such a page. A tool that ends there lets nothing go that it holds, so
// the page, and what follows it in the file, reads as zeros from then on, and the range remembers
// that. Whoever used its bytes asks afterwards: zeros are no findings.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace heapsnap {

class WatchedRange;

// From now on [data, data + size), a mapping, survives the loss of pages. `name` is for messages.
WatchedRange* watch_range(const void* data, size_t size, const std::string& name);
void forget_range(WatchedRange* range);  // before it is unmapped; not null
bool has_lost_pages(const WatchedRange& range);

// The names of all files that lost pages so far, also of those that are closed by now.
std::vector<std::string> files_with_lost_pages();

}  // namespace heapsnap
