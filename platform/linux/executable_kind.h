// What the program of a process is: its word size, and which allocator answers its malloc.
//
// A quick look at file names and section names, for saying beforehand what to expect; attaching
// looks properly.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "target/mapping.h"

namespace heapsnap {

struct ExecutableKind {
  bool is_elf = false;
  unsigned bits = 0;     // 32 or 64
  uint16_t machine = 0;  // EM_*
  bool has_interpreter = false;
  // Told by section names; a program stripped of its section headers has neither.
  bool is_go = false;
  bool has_static_glibc = false;
};

// Reads the ELF headers in `bytes`, which may be damaged: gives what is sound.
ExecutableKind recognize_executable(std::span<const std::byte> bytes);

struct AllocatorGuess {
  enum class Kind : uint8_t {
    kUnknown,      // statically linked and nothing known recognized, or nothing to look at
    kGlibc,        // libc.so.6
    kStaticGlibc,  // in the executable
    kMusl,
    kBionic,
    kGo,  // Go without a C library
  };
  Kind kind = Kind::kUnknown;
  std::string library;                    // path of the C library, as the target sees it
  bool library_deleted = false;           // upgraded since: read through /proc/PID/map_files
  std::vector<std::string> replacements;  // "jemalloc": libraries that answer malloc instead
};

AllocatorGuess guess_allocator(std::span<const Mapping> mappings, const ExecutableKind& executable);

}  // namespace heapsnap
