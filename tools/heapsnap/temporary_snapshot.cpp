#include "tools/heapsnap/temporary_snapshot.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "tools/capture/capture.h"

namespace heapsnap {

TemporarySnapshot::TemporarySnapshot(int pid, const DebugFileSearch& debug_files) {
  const char* const base = ::getenv("TMPDIR");
  folder_ = std::string(base == nullptr || *base == '\0' ? "/tmp" : base) + "/heapsnap-XXXXXX";
  if (::mkdtemp(folder_.data()) == nullptr) {
    throw Error(ErrorKind::kOutput, "cannot create a directory in " + folder_, errno_text(errno),
                "set TMPDIR to a directory with enough space for a snapshot");
  }
  path_ = folder_ + "/snapshot";
  CaptureOptions options;
  options.output.path = path_;
  options.debug_files = debug_files;
  try {
    capture_alone(pid, FreezeOptions{}, options);
  } catch (...) {
    ::rmdir(folder_.c_str());
    throw;
  }
}

TemporarySnapshot::~TemporarySnapshot() {
  ::unlink(path_.c_str());
  ::rmdir(folder_.c_str());
}

}  // namespace heapsnap
