// Chunks counted by their size.
//
// Sizes up to 1024 bytes are counted one by one (in steps of 8, the smallest alignment of any
// malloc that we read): most programs live there, and an exact size often names the type that is
// allocated. Larger ones are counted by powers of two.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/bounded_sum.h"

namespace heapsnap {

struct Tally {
  uint64_t count = 0;
  uint64_t bytes = 0;

  void add(uint64_t size) {
    ++count;
    bytes += size;
  }
  Tally& operator+=(const Tally& other) {
    count = bounded_sum(count, other.count);
    bytes = bounded_sum(bytes, other.bytes);
    return *this;
  }
  bool operator==(const Tally&) const = default;
};

// Chunks with begin <= size < end; end 0: no upper bound.
struct SizeClass {
  uint64_t begin = 0;
  uint64_t end = 0;
  Tally used;  // mmapped chunks included
  Tally free;  // any kind but top
  bool operator==(const SizeClass&) const = default;
};
// "112 B", "2 MiB to 4 MiB"
std::string size_class_name(const SizeClass& each);

class SizeClasses {
 public:
  static constexpr uint64_t kStep = 8;  // of the exact sizes

  enum Kind : uint8_t { kFree = 0, kUsed = 1, kNeither = 2 };

  void add(uint64_t size, Kind kind) { cells_[kind][index_of(size)].add(size); }

  // Classes by powers of two, ascending, without empty ones.
  std::vector<SizeClass> by_power() const;
  // The exact sizes up to 1024 bytes that hold most used bytes, largest share first.
  std::vector<SizeClass> most_used(size_t count) const;
  // All of those with larger sizes, these by powers of two: together all used chunks, none twice.
  std::vector<SizeClass> all_used() const;

 private:
  static constexpr uint64_t kExactLimit = 1024;
  static constexpr size_t kExactCount = kExactLimit / kStep + 1;
  static constexpr size_t kCount = kExactCount + 64;

  static size_t index_of(uint64_t size) {
    return size <= kExactLimit ? size / kStep
                               : kExactCount + static_cast<size_t>(std::bit_width(size) - 1);
  }
  static uint64_t smallest_of(size_t index);
  std::vector<SizeClass> most_used_below(size_t limit, size_t count) const;

  std::array<std::array<Tally, kCount>, 3> cells_{};
};

}  // namespace heapsnap
