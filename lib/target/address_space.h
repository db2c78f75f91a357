// The mappings of one target at one instant, ordered by address.
#pragma once

#include <vector>

#include "base/address.h"
#include "target/mapping.h"

namespace heapsnap {

class AddressSpace {
 public:
  AddressSpace() = default;
  // `mappings` are ordered and disjoint, as parse_maps() gives them.
  explicit AddressSpace(std::vector<Mapping> mappings) : mappings_(std::move(mappings)) {}

  const std::vector<Mapping>& mappings() const { return mappings_; }
  // The mapping that holds `address`, or nullptr.
  const Mapping* find(Address address) const;
  // The run of adjacent readable and writable private mappings around `address`, as one range:
  // the kernel splits one allocation into several VMAs (names, mprotect, huge pages). Empty range
  // when `address` is in none.
  AddressRange writable_run(Address address) const;

 private:
  std::vector<Mapping> mappings_;
};

}  // namespace heapsnap
