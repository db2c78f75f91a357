// How much memory a process and a copy of it can still take before they reach a limit. Asked so
// often that the files stay open.
//
// The limits are those of its control groups and the groups above them, and the memory of the
// machine. A group's usage includes file pages, which the kernel reclaims first; memory.stat says
// how many. Reading it is slow (the kernel sums over all processors), so it is read only when a
// limit seems near.
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
  // Finds the limits of process `pid`, once. A file that cannot be opened is no limit.
  explicit MemoryMargin(int pid, const KernelFiles& files = {});

  struct Room {
    uint64_t bytes = UINT64_MAX;
    std::string limit;  // "memory limit of /app", "memory of this machine"; empty: there is none
  };
  // The least room that any limit leaves now. May be an underestimate if it is more than `enough`.
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
