// Looks at the ELF files of a program, one after the other, for who answers its calls of malloc.
//
// The loader takes the first that it comes to: the program itself, then libraries, and the C
// library behind those that need it. So whatever exports malloc beside the C library is who
// answers.
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
};

// Of a process, by all files of which it has code. A file that cannot be opened is left out.
AllocatorVerdict survey_allocators(Target& target);

}  // namespace heapsnap
