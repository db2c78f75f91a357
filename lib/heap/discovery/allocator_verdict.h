// Which malloc a program's calls reach: one verdict, which all commands use.
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
  // Allocators that parts of the program call by names of their own: Rust's jemalloc, Go.
  std::vector<std::string> beside;
  // A file that defines malloc before glibc's and is not known: it may forward the calls.
  std::string interposer;
  // glibc's malloc with checks, libc_malloc_debug.so.0, in front of that of libc.so.6. Its blocks
  // are walked but not recorded.
  std::string checker;
};

}  // namespace heapsnap
