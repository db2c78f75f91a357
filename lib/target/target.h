// A target at one instant: everything that a heap walk may ask of it, live, core or image alike.
#pragma once

#include <optional>
#include <vector>

#include "base/mapped_file.h"
#include "target/address_space.h"
#include "target/heap_passes.h"
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
  // Passes where the memory lies; nullptr where there are none.
  virtual HeapPasses* passes() { return nullptr; }
  // The file behind a mapping, as the target sees it (its mount namespace, its chroot, also when
  // it has been deleted). Gives nothing when it cannot be opened or is another file by now.
  virtual std::optional<MappedFile> open_file(const Mapping& mapping) = 0;
};

}  // namespace heapsnap
