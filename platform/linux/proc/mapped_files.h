// The files behind the mappings of a process, as that process sees them.
//
// Two ways, since neither always works:
//   /proc/PID/map_files/BEGIN-END   the very file that is mapped, even if it was deleted or is in
//                                   another mount namespace; needs CAP_SYS_ADMIN or
//                                   CAP_CHECKPOINT_RESTORE
//   /proc/PID/root + path           resolved inside the root folder of the process; the file there
//                                   may be another one by now, so device and inode must match
#pragma once

#include "base/unique_fd.h"
#include "platform/linux/proc/proc_fs.h"
#include "target/mapping.h"

namespace heapsnap {

class MappedFiles {
 public:
  MappedFiles(const ProcFs& proc, int pid) : proc_(proc), pid_(pid) {}

  // The regular file behind `mapping`, open for reading; closed if there is none, if it cannot be
  // opened, or if its path now names another file. Never opens a device or a fifo: that could have
  // side effects.
  UniqueFd open(const Mapping& mapping) const;

  // The regular file now at a path of the process, mapped or not (a library that was unloaded);
  // closed if there is none. The caller checks that it is the right one.
  UniqueFd open_path(const std::string& path) const;

 private:
  UniqueFd open_by_range(const Mapping& mapping) const;
  UniqueFd open_by_path(const Mapping& mapping) const;

  ProcFs proc_;
  int pid_;
};

}  // namespace heapsnap
