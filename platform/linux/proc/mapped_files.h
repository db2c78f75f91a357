// The files behind the mappings of a process, as that process sees them.
//
// Two roads, since neither always works:
//   /proc/PID/map_files/BEGIN-END   leads to the very file that is mapped, also when it was deleted
//                                   or lies in another mount namespace; needs CAP_SYS_ADMIN or
//                                   CAP_CHECKPOINT_RESTORE
//   /proc/PID/root + path           walked inside the root folder of the process; the file there
//                                   may be another one by now, so device and inode must agree
#pragma once

#include "base/unique_fd.h"
#include "platform/linux/proc/proc_fs.h"
#include "target/mapping.h"

namespace heapsnap {

class MappedFiles {
 public:
  MappedFiles(const ProcFs& proc, int pid) : proc_(proc), pid_(pid) {}

  // The regular file behind `mapping`, open for reading; closed when there is none, it cannot be
  // opened, or another file lies at its path now. Never opens a device or a fifo: that could have
  // effects.
  UniqueFd open(const Mapping& mapping) const;

  // The regular file that lies at a path of the process now, whether it is mapped or not (a library
  // that was unloaded); closed when there is none. The caller finds out whether it is the right
  // one.
  UniqueFd open_path(const std::string& path) const;

 private:
  UniqueFd open_by_range(const Mapping& mapping) const;
  UniqueFd open_by_path(const Mapping& mapping) const;

  ProcFs proc_;
  int pid_;
};

}  // namespace heapsnap
