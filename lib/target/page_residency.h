// Which pages of the target are in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/address.h"

namespace heapsnap {

enum class PageState : uint8_t {
  kUnknown = 0,       // the source does not say (cores, raw images)
  kAbsent = 1,        // never touched, or given back by madvise/trim: costs nothing
  kResident = 2,      // in memory, anonymous
  kSwapped = 3,       // in swap: costs swap, and is not a clean page
  kResidentFile = 4,  // in memory, a page of a file or of shared memory
  kResidentHuge = 5,  // in memory as a part of a transparent or hugetlb page
};

class PageResidency {
 public:
  virtual ~PageResidency() = default;

  virtual uint64_t page_size() const = 0;
  // States of out.size() consecutive pages from `first_page` (page aligned) on. Pages in no mapping
  // are kAbsent. Never throws for a hole; what cannot be learnt is kUnknown.
  virtual void read(Address first_page, std::span<PageState> out) = 0;
  // Up to where, from `range.begin` on, all pages are known to be kAbsent: the first page that may
  // be another, or `range.end`; `range.begin` where that cannot be told without reading states.
  // Page aligned. Programs reserve terabytes that they never touch (sanitizers, Go, Java): what
  // searches memory leaps over them.
  virtual Address absent_until(AddressRange range) { return range.begin; }
  // Whether any page in a mapping can be anything but kUnknown.
  virtual bool knows_pages() const { return true; }
};

}  // namespace heapsnap
