#include "tools/heapsnap/temporary_snapshot.h"

#include <stdlib.h>

#include <cerrno>

#include "base/error.h"
#include "base/unnamed_file.h"
#include "core/core_target.h"
#include "tools/capture/capture.h"

namespace heapsnap {

namespace {

std::string temporary_folder() {
  const char* const chosen = ::getenv("TMPDIR");
  return chosen == nullptr || *chosen == '\0' ? "/tmp" : chosen;
}

UniqueFd open_file() {
  const std::string folder = temporary_folder();
  UniqueFd file = open_unnamed_file(folder);
  if (file) return file;
  throw Error(ErrorKind::kOutput, "cannot create a file in " + folder, errno_text(errno),
              "set TMPDIR to a directory with enough space for a snapshot");
}

CaptureOptions capture_options(const UniqueFd& file, const DebugFileSearch& debug_files,
                               WantedPasses passes) {
  CaptureOptions options;
  options.output.path = temporary_folder();
  options.output.file = file.get();
  options.debug_files = debug_files;
  switch (passes) {
    case WantedPasses::kNone:
      options.references.choice = CaptureChoice::kNo;
      options.runtimes = CaptureChoice::kNo;
      break;
    case WantedPasses::kReferences: options.references.choice = CaptureChoice::kYes; break;
    case WantedPasses::kRuntimes:
      options.references.choice = CaptureChoice::kNo;
      options.runtimes = CaptureChoice::kYes;
      break;
  }
  return options;
}

}  // namespace

TemporarySnapshot::TemporarySnapshot(int pid, const DebugFileSearch& debug_files,
                                     WantedPasses passes)
    : file_(open_file()) {
  capture_alone(pid, FreezeOptions{}, capture_options(file_, debug_files, passes));
}

TemporarySnapshot::TemporarySnapshot(const std::string& core_path, const std::string& sysroot,
                                     const DebugFileSearch& debug_files, WantedPasses passes) {
  CoreOptions core;
  core.core_path = core_path;
  core.sysroot = sysroot;
  std::vector<std::string> notes;
  const std::unique_ptr<Target> target = open_core(core, notes);
  file_ = open_file();
  CaptureOptions options = capture_options(file_, debug_files, passes);
  options.sysroot = sysroot;
  capture_core(*target, core_path, notes, options);
}

std::string TemporarySnapshot::path() const {
  return "/proc/self/fd/" + std::to_string(file_.get());
}

}  // namespace heapsnap
