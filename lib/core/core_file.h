// The bytes of a core file, unpacked where it is compressed.
#pragma once

#include <string>
#include <vector>

#include "base/mapped_file.h"

namespace heapsnap {

// Maps the file at `path`. One that is compressed by zstd (systemd-coredump) is unpacked into an
// unlinked file in $TMPDIR, else /var/tmp, with holes for its zeros, so memory stays flat; one that
// ends early gives what there is and a sentence in `notes`. Throws Error{kBadInput} for other
// compressions, with the command that unpacks them, and Error{kOutput} when the disk is full.
MappedFile open_core_file(const std::string& path, std::vector<std::string>& notes);

}  // namespace heapsnap
