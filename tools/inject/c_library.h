// The C library of a running process: what of it heapsnap calls there, and how it makes threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elf/elf_image.h"
#include "heap/discovery/glibc_version.h"
#include "platform/linux/inject/call_list.h"
#include "platform/linux/inject/thread_control_block.h"
#include "target/target.h"
#include "tools/inject/running_program.h"

namespace heapsnap {

// One ELF file of the target, where it is loaded.
struct LoadedLibrary {
  ElfImage image;
  std::string path;
  Address load_bias;
};

// Address in the target of a function or variable that `library` exports; null when it does not.
Address exported_address(const LoadedLibrary& library, std::string_view name);

class CLibrary {
 public:
  // Reads the target's files and memory; it may run. Throws Error{kUnsupported} for a target in
  // which no thread can be made: a static program, another C library or allocator than glibc's, one
  // without pthread_create. A program that is just being loaded looks like these, so it is looked
  // at again for half a second before. Throws Error{kNoProcess} when it is another program by then.
  static CLibrary find(RunningProgram& target);

  const LoadedLibrary& libc() const { return libc_; }
  const GlibcVersion& version() const { return version_; }
  const ThreadControlBlockLayout& thread_layout() const { return layout_; }

  // A function that is surely there; throws Error{kUnsupported} when it is not.
  Address function(std::string_view name) const;
  // The same in any of the libraries that belong to glibc, or null.
  Address find_function(std::string_view name) const;

 private:
  CLibrary(LoadedLibrary libc, std::vector<LoadedLibrary> parts);
  static CLibrary find_now(Target& target);
  void read_layout(Target& target);

  LoadedLibrary libc_;
  std::vector<LoadedLibrary> parts_;  // ld.so, libpthread, libdl
  GlibcVersion version_;
  ThreadControlBlockLayout layout_;
};

}  // namespace heapsnap
