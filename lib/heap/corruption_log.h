// Collects records of damage in a target's heap, up to a limit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/address.h"
#include "heap/chunk.h"

namespace heapsnap {

class CorruptionLog {
 public:
  static constexpr size_t kKept = 1000;

  // `segment` and `arena`: indexes into the HeapModel, -1 where there is none.
  void add(Address where, int32_t arena, int64_t segment, std::string what);
  uint64_t count() const { return count_; }
  // The first kKept records, and one more that says how many were left out.
  std::vector<Corruption> take();

 private:
  std::vector<Corruption> kept_;
  uint64_t count_ = 0;
};

// "0x55d0c0de" for messages.
std::string hex(uint64_t value);
std::string hex(Address address);

}  // namespace heapsnap
