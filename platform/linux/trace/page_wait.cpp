#include "platform/linux/trace/page_wait.h"

#include <filesystem>
#include <string>

#include "platform/linux/proc/kernel_text.h"

namespace heapsnap {

namespace {

// A thread that has run for longer since it was interrupted is in the kernel: the interrupt reaches
// the processor that it runs on within microseconds.
constexpr std::chrono::milliseconds kLongestOnTheWay{5};
// Some 2 µs each, while the target is stopped.
constexpr int kMostDescriptors = 10'000;

}  // namespace

std::optional<std::chrono::nanoseconds> run_time_in_schedstat(std::string_view text) {
  const auto ran = parse_number(take_word(text));
  if (!ran || *ran > uint64_t{INT64_MAX}) return std::nullopt;
  return std::chrono::nanoseconds(static_cast<int64_t>(*ran));
}

bool PageWait::holds(int tid) {
  const auto ran = run_time_in_schedstat(proc_.try_read(tid, "schedstat").value_or(std::string()));
  if (!ran) return false;
  const auto before = ran_before_.emplace(tid, *ran).first;
  return *ran - before->second > kLongestOnTheWay && has_page_handler();
}

bool PageWait::has_page_handler() {
  if (has_page_handler_) return *has_page_handler_;
  has_page_handler_ = false;
  std::error_code end;
  int count = 0;
  for (std::filesystem::directory_iterator entry(proc_.path(pid_, "fd"), end), last;
       !end && entry != last && ++count <= kMostDescriptors; entry.increment(end)) {
    if (link_target_or_empty(entry->path()) != "anon_inode:[userfaultfd]") continue;
    has_page_handler_ = true;
    break;
  }
  return *has_page_handler_;
}

}  // namespace heapsnap
