// The used slots of a runtime's pages as columns:
//
//   pages       of each: bytes from the end of the slots before, bytes of a slot, slots; varints
//   used bits   a bit a slot, of each page from a new byte on; 1: used
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/address.h"
#include "references/slot_map.h"
#include "snapshot/section.h"

namespace heapsnap {

class SlotPageBuilder {
 public:
  // Full sections go to `sink`.
  explicit SlotPageBuilder(SectionSink& sink);

  // Pages in ascending order of address, which do not overlap.
  void add(const SlotPage& page);
  // Hands over what is left. Call it after the last page.
  void flush();

 private:
  SectionSink& sink_;
  Section section_;
  Address end_;  // of the last page in the section
};

using ReceiveSlots = std::function<void(const SlotPage&)>;

// Gives the pages of one section to `receive`. Throws Error{kBadInput} when the columns do not fit
// together, do not begin at `begin`, or begin before `*end`, which is moved to their end.
void read_slot_pages(std::span<const std::byte> pages, std::span<const std::byte> used_bits,
                     uint32_t used, Address begin, const std::string& source, Address* end,
                     const ReceiveSlots& receive);

}  // namespace heapsnap
