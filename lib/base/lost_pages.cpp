#include "base/lost_pages.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

namespace heapsnap {

// Ranges are never freed, so that the handler, which may run in any thread at any time, can walk
// the list without a lock. Those that are not in use (begin == end) are used again.
class WatchedRange {
 public:
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> lost{false};
  WatchedRange* next = nullptr;  // set before the range is in the list
  std::string name;              // as begin: not read by the handler
};

namespace {

std::atomic<WatchedRange*> ranges{nullptr};
std::mutex changing;
struct sigaction handler_before;

WatchedRange* range_of(uintptr_t address) {
  for (WatchedRange* range = ranges.load(); range != nullptr; range = range->next) {
    if (range->begin.load() <= address && address < range->end.load()) return range;
  }
  return nullptr;
}

void on_bus_error(int signal_number, siginfo_t* info, void* /*context*/) {
  const int error_number = errno;
  const bool is_sent = info->si_code <= 0;  // by kill(2) and the like: there is no address
  const auto address = is_sent ? 0 : reinterpret_cast<uintptr_t>(info->si_addr);
  WatchedRange* const range = range_of(address);
  if (range != nullptr) {
    const auto page_size = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const uintptr_t page = address & ~(page_size - 1);
    // Writable: libelf writes to images. mmap(2) is a plain system call.
    void* const zeros =
        ::mmap(reinterpret_cast<void*>(page), range->end.load() - page, PROT_READ | PROT_WRITE,
               MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    range->lost = true;
    errno = error_number;
    if (zeros != MAP_FAILED) return;
  }
  // Not ours. With the action of before the instruction is tried again, and faults again.
  ::sigaction(signal_number, &handler_before, nullptr);
  if (is_sent) ::raise(signal_number);
}

void install_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &handler_before);
}

}  // namespace

WatchedRange* watch_range(const void* data, size_t size, const std::string& name) {
  static std::once_flag installed;
  std::call_once(installed, install_handler);
  const std::lock_guard lock(changing);
  WatchedRange* range = ranges.load();
  while (range != nullptr && (range->end.load() != 0 || range->lost.load())) range = range->next;
  if (range == nullptr) {
    range = new WatchedRange;
    range->next = ranges.load();
    ranges = range;
  }
  range->name = name;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  range->begin = begin;
  range->end = begin + size;
  return range;
}

void forget_range(WatchedRange* range) {
  const std::lock_guard lock(changing);
  range->end = 0;
  range->begin = 0;
}

bool has_lost_pages(const WatchedRange& range) {
  return range.lost.load();
}

std::vector<std::string> files_with_lost_pages() {
  const std::lock_guard lock(changing);
  std::vector<std::string> names;
  for (WatchedRange* range = ranges.load(); range != nullptr; range = range->next) {
    if (range->lost && std::find(names.begin(), names.end(), range->name) == names.end()) {
      names.push_back(range->name);
    }
  }
  return names;
}

}  // namespace heapsnap
