// The memory of a core, and what a core says of page residency: nothing.
#pragma once

#include <vector>

#include "core/core_regions.h"
#include "target/address_space.h"
#include "target/memory_reader.h"
#include "target/page_residency.h"

namespace heapsnap {

class CoreMemory final : public MemoryReader {
 public:
  // `regions` are disjoint and in order; what they point at outlives this.
  explicit CoreMemory(std::vector<CoreRegion> regions) : regions_(std::move(regions)) {}

  size_t read(Address from, std::span<std::byte> out) override;
  AddressRange next_readable(AddressRange range) override;
  // The bytes from `address` on that lie together; empty when it cannot be read.
  std::span<const std::byte> bytes_at(Address address);

 private:
  std::vector<CoreRegion> regions_;
  size_t last_ = 0;  // index of the region that was read last: reads come in runs
};

class CoreResidency final : public PageResidency {
 public:
  // `address_space` outlives this.
  CoreResidency(const AddressSpace& address_space, uint64_t page_size)
      : address_space_(address_space), page_size_(page_size) {}

  uint64_t page_size() const override { return page_size_; }
  bool knows_pages() const override { return false; }
  void read(Address first_page, std::span<PageState> out) override;

 private:
  const AddressSpace& address_space_;
  uint64_t page_size_;
};

}  // namespace heapsnap
