// How much memory a process has taken by page faults: of what it writes to, no more than that was
// copied because a copy of the process shared it.
//
// A write to a page that both have is a fault, and takes one more page. So does the first write to
// memory that is new; a fault that reads a file takes none. What is counted is a bound, then, but
// all of it is the process's own, whatever other processes do meanwhile. (Of huge pages that were
// reserved, a fault takes more; these are not counted as free memory anywhere.)
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/unique_fd.h"
#include "platform/linux/proc/kernel_files.h"

namespace heapsnap {

// Minor and major faults of a process, by the text of its /proc/PID/stat; nullopt where it has
// none.
std::optional<uint64_t> faults_in_stat(std::string_view text);

class FaultCount {
 public:
  // Starts counting. Asked so often that the file stays open.
  explicit FaultCount(int pid, const KernelFiles& files = {});

  void restart();
  // Bytes since construction or restart(), at most; nullopt if the process is gone.
  std::optional<uint64_t> bytes() const;

 private:
  std::optional<uint64_t> faults() const;

  UniqueFd stat_;
  uint64_t page_size_;
  std::optional<uint64_t> before_;
};

}  // namespace heapsnap
