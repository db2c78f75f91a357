// A request that is made until the server has taken it, or until it is clear that it will not.
//
//   connection refused, 503, 429    again, later (retry_delay.h)
//   2xx                             done
//   any other answer                an error at once: the same request would get the same answer
#pragma once

#include <cstdint>
#include <string>

#include "tools/push/http_post.h"

namespace heapsnap {

struct Delivery {
  unsigned attempts = 0;
  int status = 0;
};

// Makes the request up to `retries` times more. Prints a line to standard error before it waits,
// unless `quiet`. Throws Error{kOutput} with what the server said, and what to do.
Delivery deliver(const HttpRequest& request, uint64_t retries, bool quiet);

}  // namespace heapsnap
