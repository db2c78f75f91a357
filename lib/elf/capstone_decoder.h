// An open Capstone: machine code, an instruction at a time. Nobody else sets Capstone up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "target/process.h"

struct cs_insn;  // Capstone's

namespace heapsnap {

class CapstoneDecoder {
 public:
  // Throws Error{kUnsupported} when Capstone cannot be loaded, Error{kInternal} when it was built
  // without the machine.
  explicit CapstoneDecoder(Machine machine);
  CapstoneDecoder(const CapstoneDecoder&) = delete;
  CapstoneDecoder& operator=(const CapstoneDecoder&) = delete;
  ~CapstoneDecoder();

  size_t handle() const { return handle_; }  // Capstone's csh

  // The instruction at the start of `code`, with its details, valid until the next call; null when
  // there is none.
  const cs_insn* decode(std::span<const std::byte> code, uint64_t address);

 private:
  size_t handle_ = 0;
  cs_insn* decoded_ = nullptr;
};

}  // namespace heapsnap
