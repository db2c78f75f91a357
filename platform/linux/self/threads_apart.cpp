#include "platform/linux/self/threads_apart.h"

#include <algorithm>
#include <utility>

#include "platform/linux/self/helper_thread.h"

namespace heapsnap {

ThreadsApart::ThreadsApart() {
  // More processors than fit into a cpu_set_t: EINVAL.
  if (::sched_getaffinity(0, sizeof all_, &all_) != 0 || CPU_COUNT(&all_) < 2) return;
  const auto here = static_cast<size_t>(std::max(::sched_getcpu(), 0));
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_ZERO(&rest_);
  bool is_own = true;  // of the next one; the first one is where this thread runs
  for (size_t i = 0; i < CPU_SETSIZE; ++i) {
    const size_t cpu = (here + i) % CPU_SETSIZE;
    if (!CPU_ISSET(cpu, &all_)) continue;
    CPU_SET(cpu, is_own ? &own : &rest_);
    is_own = !is_own;
  }
  are_apart_ = ::sched_setaffinity(0, sizeof own, &own) == 0;
}

ThreadsApart::~ThreadsApart() {
  if (are_apart_) ::sched_setaffinity(0, sizeof all_, &all_);
}

std::thread ThreadsApart::start(std::function<void()> body) const {
  if (!are_apart_) return start_helper_thread(std::move(body));
  return start_helper_thread([rest = rest_, body = std::move(body)] {
    ::sched_setaffinity(0, sizeof rest, &rest);
    body();
  });
}

}  // namespace heapsnap
