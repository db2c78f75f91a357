// A file that has no name, and so is gone with the last descriptor of it, however a process ends.
#pragma once

#include <string>

#include "base/unique_fd.h"

namespace heapsnap {

// One in `folder`, mode 0600, for reading and writing. Where the file system has no O_TMPFILE (NFS,
// overlayfs before Linux 6.1) it has a name for an instant. Empty, with errno, when there can be
// none.
UniqueFd open_unnamed_file(const std::string& folder);

}  // namespace heapsnap
