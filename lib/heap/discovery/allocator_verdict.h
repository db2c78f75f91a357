// Who answers a program's calls of malloc: one verdict, which every command goes by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heapsnap {

struct AllocatorVerdict {
  enum class Kind : uint8_t {
    kUnknown,      // no file tells: statically linked, stripped, or nothing to look at
    kGlibc,        // libc.so.6
    kStaticGlibc,  // in the program
    kForeign,      // another: its blocks are neither walked nor recorded
  };
  Kind kind = Kind::kUnknown;
  std::string name;           // of kForeign: "jemalloc", "musl", "Go"
  std::string file;           // that holds it, as the target sees it
  bool file_deleted = false;  // replaced on disk since
  // Allocators that a part of the program calls by names of their own: Rust's jemalloc, Go.
  std::vector<std::string> beside;
  // A file that answers malloc in front of glibc's and is not known: it may pass the calls on.
  std::string interposer;
};

}  // namespace heapsnap
