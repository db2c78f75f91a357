// The memory of a stopped thread, and no other.
//
// A pid names whatever runs under it now: when another thread of the process executes a program,
// the stopped threads are killed, their leader's tid goes to that thread, and what is written by
// pid is written into the new program. So the memory is opened while the thread is stopped, and the
// thread is checked once more afterwards: if it is still stopped, what was opened was its own. From
// then on the descriptor refers to that memory, or to nothing once the program is gone.
#pragma once

#include <cstddef>
#include <span>

#include "base/unique_fd.h"
#include "platform/linux/trace/tracee.h"
#include "target/memory_reader.h"

namespace heapsnap {

class TraceeMemory final : public MemoryReader {
 public:
  // `thread` is stopped. If it is not (any longer), nothing can be read or written.
  explicit TraceeMemory(const Tracee& thread);

  size_t read(Address from, std::span<std::byte> out) override;
  // Whether all of `bytes` was written.
  bool write(Address to, std::span<const std::byte> bytes);

 private:
  // Word by word, with PTRACE_POKEDATA.
  bool poke(Address to, std::span<const std::byte> bytes);

  int tid_;
  UniqueFd mem_;
  // Opening /proc/PID/mem of another user for writing takes CAP_DAC_OVERRIDE, which a heapsnap with
  // just CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH does without.
  bool pokes_ = false;
};

}  // namespace heapsnap
