// What a fork of the target leaves out (missing_memory.h): foreseen from smaps while the target
// runs, and kept for the copy while both are stopped.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "platform/linux/freeze/missing_memory.h"
#include "platform/linux/proc/proc_fs.h"
#include "target/mapping.h"
#include "target/memory_reader.h"

namespace heapsnap {

class ForkOmissions {
 public:
  // Why a fork would not show what is to be read, judging by what the target had `before`; nullopt
  // if it would, with room made for what has to be kept. `takes_longer` tells whether it is better
  // to do without a fork than to keep so many bytes.
  std::optional<std::string> foresee(const MappingsWithUsage& before,
                                     const std::function<bool(uint64_t bytes)>& takes_longer);
  // Keeps what `child` does not show of thread `tid`'s process, which `memory` reads, while both
  // are stopped. `runs_code`: whether the child will execute code of the target. Returns why that
  // cannot be done, or nullopt.
  std::optional<std::string> keep(const ProcFs& proc, int tid, int child, bool runs_code,
                                  MemoryReader& memory);

  const MissingMemory& kept() const { return kept_; }

 private:
  std::vector<AddressRange> wiped_;  // MADV_WIPEONFORK, of the running target
  MissingMemory kept_;
};

}  // namespace heapsnap
