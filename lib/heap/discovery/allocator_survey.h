// Finds out from the ELF files of a program, one by one, which malloc its calls reach.
//
// The loader uses the first definition that it finds: in the program, then in libraries, and in the
// C library after those that need it. So if anything besides the C library exports malloc, that is
// the one called.
#pragma once

#include <string>

#include "elf/elf_image.h"
#include "heap/discovery/allocator_verdict.h"
#include "target/target.h"

namespace heapsnap {

class AllocatorSurvey {
 public:
  // A file of which code is mapped, or will be.
  void add(const ElfImage& image, const std::string& path, bool deleted = false);
  AllocatorVerdict verdict() const;

 private:
  AllocatorVerdict glibc_;  // or unknown
  AllocatorVerdict foreign_;
  std::vector<std::string> beside_;
  std::string interposer_;
  std::string checker_;
};

// Of a process, by all files of which it has code. A file that cannot be opened is left out.
AllocatorVerdict survey_allocators(Target& target);

}  // namespace heapsnap
