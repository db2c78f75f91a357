// How much memory a process and a copy of it can still take before a limit is reached, asked so
// often that its files stay open.
//
// Limits are those of its control groups and of those above them, and the memory of the machine.
// What a group uses counts file pages too, which the kernel gives back first; how many those are is
// told by memory.stat, which is slow (the kernel adds up all processors), so that it is read only
// when a limit seems near.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "platform/linux/proc/kernel_files.h"

namespace heapsnap {

class MemoryMargin {
 public:
  // Looks for the limits of process `pid`, once. Files that cannot be opened are no limits.
  explicit MemoryMargin(int pid, const KernelFiles& files = {});

  struct Room {
    uint64_t bytes = UINT64_MAX;
    std::string limit;  // "memory limit of /app", "memory of this machine"; empty: there is none
  };
  // The least room that any limit leaves now. It may be given too small while it is more than
  // `enough`.
  Room room(uint64_t enough);

 private:
  struct Limit {
    std::string group;
    std::string reclaimable;
    UniqueFd limit;
    UniqueFd used;
    UniqueFd statistics;
  };
  std::optional<uint64_t> room_of(const Limit& limit, uint64_t enough);
  // The text of an open file, in buffer_.
  std::string_view read(const UniqueFd& file);

  std::vector<Limit> limits_;
  UniqueFd meminfo_;
  std::vector<char> buffer_;
};

}  // namespace heapsnap
