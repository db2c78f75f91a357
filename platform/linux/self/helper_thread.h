// Threads of heapsnap's own that take no signals: handlers run on the threads that want them.
#pragma once

#include <functional>
#include <thread>

namespace heapsnap {

// Starts `body` with all signals blocked. Throws std::system_error if no thread can be started.
std::thread start_helper_thread(std::function<void()> body);

// The same for a thread that nothing goes on without. Throws Error{kNotPermitted} with the limits
// of heapsnap that may be the reason.
std::thread start_needed_thread(std::function<void()> body);

}  // namespace heapsnap
