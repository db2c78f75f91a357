// A target at one instant: everything that a heap walk may ask of it, live, core or image alike.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/mapped_file.h"
#include "target/address_space.h"
#include "target/code_runner.h"
#include "target/memory_reader.h"
#include "target/page_residency.h"
#include "target/process.h"

namespace heapsnap {

class Target {
 public:
  virtual ~Target() = default;

  virtual const Process& process() const = 0;
  virtual const AddressSpace& address_space() const = 0;
  virtual const std::vector<Thread>& threads() const = 0;
  virtual MemoryReader& memory() = 0;
  virtual PageResidency& residency() = 0;
  // Whether its memory is mapped into this process, and then the bytes from an address on that lie
  // together; empty where there are none. They stay as long as the target.
  virtual bool is_mapped_here() const { return false; }
  virtual std::span<const std::byte> mapped_bytes(Address) { return {}; }
  // Runs code of ours beside the memory; nullptr where that cannot be.
  virtual CodeRunner* code_runner() { return nullptr; }
  // The file behind a mapping, as the target sees it (its mount namespace, its chroot, also when
  // it has been deleted). Gives nothing when it cannot be opened or is another file by now.
  virtual std::optional<MappedFile> open_file(const Mapping& mapping) = 0;
};

}  // namespace heapsnap
