#include "platform/linux/proc/memory_margin.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "platform/linux/proc/cgroup_limits.h"
#include "platform/linux/proc/kernel_text.h"

namespace heapsnap {

namespace {

constexpr size_t kLongestText = 16384;  // memory.stat is about 2 KB

UniqueFd open_file(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace

MemoryMargin::MemoryMargin(int pid, const KernelFiles& files)
    : meminfo_(open_file(files.proc + "/meminfo")), buffer_(kLongestText) {
  const std::string cgroup = files.proc + "/" + std::to_string(pid) + "/cgroup";
  for (const MemoryLimitFiles& found : memory_limit_files(kernel_text_or_empty(cgroup), files)) {
    Limit limit{found.group, found.reclaimable, open_file(found.limit), open_file(found.used),
                open_file(found.statistics)};
    if (limit.limit && limit.used) limits_.push_back(std::move(limit));
  }
}

std::string_view MemoryMargin::read(const UniqueFd& file) {
  const ssize_t count = file ? ::pread(file.get(), buffer_.data(), buffer_.size(), 0) : -1;
  return {buffer_.data(), count > 0 ? static_cast<size_t>(count) : 0};
}

std::optional<uint64_t> MemoryMargin::room_of(const Limit& limit, uint64_t enough) {
  const auto most = parse_memory_limit(read(limit.limit));
  const auto used = most ? parse_number(read(limit.used)) : std::nullopt;
  if (!used) return std::nullopt;
  const auto left = [&](uint64_t bytes) { return bytes < *most ? *most - bytes : 0; };
  if (left(*used) > enough) return left(*used);
  const uint64_t reclaimable = cgroup_statistic(read(limit.statistics), limit.reclaimable);
  return left(*used - std::min(*used, reclaimable));
}

MemoryMargin::Room MemoryMargin::room(uint64_t enough) {
  Room least;
  if (const auto available = status_bytes(read(meminfo_), "MemAvailable")) {
    least = {*available, "memory of this machine"};
  }
  for (const Limit& limit : limits_) {
    const auto room = room_of(limit, enough);
    if (room && *room < least.bytes) least = {*room, "memory limit of " + limit.group};
  }
  return least;
}

}  // namespace heapsnap
