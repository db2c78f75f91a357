// How many bytes of ranges are in memory, in swap, or in neither.
#pragma once

#include <bit>
#include <cstdint>

#include "target/page_residency.h"

namespace heapsnap {

// A snapshot may claim any page size; rounding needs a power of two.
constexpr uint64_t checked_page_size(uint64_t claimed) {
  return std::has_single_bit(claimed) && claimed >= 4096 ? claimed : 4096;
}

// The bytes of a range, or of many, by the state of the pages they lie in. Chunks are smaller than
// pages, so this is precise to the byte: a chunk that reaches over a page's end adds to both pages.
// resident + swapped + absent + unknown is the number of bytes looked at; `huge` is a part of
// `resident`.
struct PageBytes {
  uint64_t resident = 0;
  uint64_t huge = 0;  // in transparent or hugetlb pages
  uint64_t swapped = 0;
  uint64_t absent = 0;
  uint64_t unknown = 0;

  uint64_t total() const { return resident + swapped + absent + unknown; }
  void add(PageState state, uint64_t bytes) {
    switch (state) {
      case PageState::kResidentHuge: huge += bytes; [[fallthrough]];
      case PageState::kResident:
      case PageState::kResidentFile: resident += bytes; return;
      case PageState::kSwapped: swapped += bytes; return;
      case PageState::kAbsent: absent += bytes; return;
      case PageState::kUnknown: unknown += bytes; return;
    }
  }
  PageBytes& operator+=(const PageBytes& other) {
    resident += other.resident;
    huge += other.huge;
    swapped += other.swapped;
    absent += other.absent;
    unknown += other.unknown;
    return *this;
  }
  // `other` is a part of this.
  PageBytes& operator-=(const PageBytes& other) {
    resident -= other.resident;
    huge -= other.huge;
    swapped -= other.swapped;
    absent -= other.absent;
    unknown -= other.unknown;
    return *this;
  }
  bool operator==(const PageBytes&) const = default;
};

}  // namespace heapsnap
