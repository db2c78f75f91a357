// A core file, or raw memory images, as a Target.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "target/target.h"

namespace heapsnap {

struct CoreOptions {
  std::string core_path =
      {};                    // ELF core, or the same compressed with zstd; may be empty with images
  std::string exe = {};      // overrides the executable that the core names
  std::string sysroot = {};  // put before the path of every mapped file
  // Raw memory: a file whose first byte is at `base` in the target.
  struct Image {
    Address base;
    std::string path;
  };
  std::vector<Image> images = {};
};

// Opens a core. Process, threads (NT_PRSTATUS with the thread pointer), mappings (PT_LOAD joined
// with NT_FILE and, for what the kernel left out of the dump, the mapped files themselves) come
// from its notes; read-only pages that were not dumped are read from the mapped files when their
// build-id fits. residency() gives kUnknown. A truncated core gives what is there and a note in
// `notes` (one sentence each). Throws Error{kBadInput} when it is no core at all.
std::unique_ptr<Target> open_core(const CoreOptions& options, std::vector<std::string>& notes);

}  // namespace heapsnap
