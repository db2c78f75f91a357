// Code of ours that runs where the target's memory lies, so that only its results travel.
//
// A target offers it where there is a process that nobody needs but us (a copy-on-write child). The
// code knows no more of that process than what its argument points to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/address.h"

namespace heapsnap {

// Position-independent code that calls nothing outside of `bytes` and needs no other data than
// what its argument points to. It is entered at `entry` with the address of one of its functions
// in %rax, that of the argument in %rdi and a stack, and ends in an int3 right before `trap`.
struct PortableCode {
  std::span<const std::byte> bytes;
  // Offsets in it.
  size_t entry = 0;
  size_t trap = 0;
};

class CodeRunner {
 public:
  virtual ~CodeRunner() = default;

  // Maps memory there for `code` and behind it, from a multiple of the page size on, `room` bytes
  // to work with. Gives where that room begins; null when it cannot be had.
  virtual Address load(const PortableCode& code, uint64_t room) = 0;
  // Begins a call of the function at offset `function` of the code that was loaded last, with
  // `argument`. Waits first for the end of the one before.
  virtual void start(size_t function, Address argument) = 0;
  // Waits for the end of the call. False when it ran into something else, such as a page that
  // cannot be read.
  virtual bool finish() = 0;
  // Memory there, also during a call. False when a byte is missing.
  virtual bool read(Address from, std::span<std::byte> bytes) = 0;
  virtual bool write(Address to, std::span<const std::byte> bytes) = 0;
};

}  // namespace heapsnap
