// The files that a core's process had mapped, as they are on this machine now: looked for below a
// sysroot, and trusted only where they can be shown to be the same files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "core/core_regions.h"
#include "elf/elf_image.h"

namespace heapsnap {

class CoreModules {
 public:
  struct Options {
    std::string sysroot;
    std::string exe_path;      // the executable's path as the core has it; empty: not known
    std::string exe_override;  // the file to take for it
  };

  // Opens the file behind each region that has one. Sentences about those that are missing, have
  // changed since or cannot be proved to be the same go to `notes`.
  CoreModules(const std::vector<CoreRegion>& regions, Options options, uint64_t page_size,
              std::vector<std::string>& notes);

  // Gives regions that the core left out their contents in the files: those that are read-only (a
  // page that was written to differs from the file), of ELF files that fit. Fills in flags that
  // are not known (those of the file's segment). The regions then point into this object.
  void complete(std::vector<CoreRegion>& regions) const;

  // Of the file at a path of the core; empty when neither the core nor a file that fits has it.
  std::string build_id(const std::string& path) const;

  // The file at a path of the core once more; nothing when it does not fit.
  std::optional<MappedFile> open(const std::string& path) const;

 private:
  struct Module {
    std::string local_root;  // the root folder that local_path is in; empty: our own
    std::string local_path;
    std::string recorded_build_id;  // as the core's own copy of the file's first page has it
    uint64_t mapped_end = 0;        // end of its readable mappings, as a file offset
    bool deleted = false;
    bool fits = false;
    std::optional<ElfImage> image;  // when it fits and is an ELF file
  };
  struct Verdicts;

  void collect(const std::vector<CoreRegion>& regions);
  static std::optional<MappedFile> open(const Module& module);
  void examine(const std::string& path, Module& module, Verdicts& verdicts);

  Options options_;
  uint64_t page_size_;
  std::map<std::string, Module> modules_;
};

}  // namespace heapsnap
