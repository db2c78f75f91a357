#include "tools/heapsnap/temporary_snapshot.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "core/core_target.h"
#include "tools/capture/capture.h"

namespace heapsnap {

namespace {

CaptureOptions capture_options(const std::string& path, const DebugFileSearch& debug_files,
                               WantedPasses passes) {
  CaptureOptions options;
  options.output.path = path;
  options.debug_files = debug_files;
  options.references.choice =
      passes == WantedPasses::kReferences ? CaptureChoice::kYes : CaptureChoice::kNo;
  options.runtimes = passes == WantedPasses::kRuntimes ? CaptureChoice::kYes : CaptureChoice::kNo;
  return options;
}

}  // namespace

void TemporarySnapshot::make_folder() {
  const char* const base = ::getenv("TMPDIR");
  folder_ = std::string(base == nullptr || *base == '\0' ? "/tmp" : base) + "/heapsnap-XXXXXX";
  if (::mkdtemp(folder_.data()) == nullptr) {
    throw Error(ErrorKind::kOutput, "cannot create a directory in " + folder_, errno_text(errno),
                "set TMPDIR to a directory with enough space for a snapshot");
  }
  path_ = folder_ + "/snapshot";
}

TemporarySnapshot::TemporarySnapshot(int pid, const DebugFileSearch& debug_files,
                                     WantedPasses passes) {
  make_folder();
  try {
    capture_alone(pid, FreezeOptions{}, capture_options(path_, debug_files, passes));
  } catch (...) {
    ::rmdir(folder_.c_str());
    throw;
  }
}

TemporarySnapshot::TemporarySnapshot(const std::string& core_path, const std::string& sysroot,
                                     const DebugFileSearch& debug_files, WantedPasses passes) {
  CoreOptions core;
  core.core_path = core_path;
  core.sysroot = sysroot;
  std::vector<std::string> notes;
  const std::unique_ptr<Target> target = open_core(core, notes);
  make_folder();
  CaptureOptions options = capture_options(path_, debug_files, passes);
  options.sysroot = sysroot;
  try {
    capture_core(*target, core_path, notes, options);
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
