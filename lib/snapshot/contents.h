// Memory contents: ranges of bytes, several in a section while they are small.
//
//   ranges   (gap from the end of the range before, length)*
//   bytes    those of all ranges, end to end: one mebibyte at most
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "base/address.h"
#include "snapshot/section.h"

namespace heapsnap {

class ContentsBuilder {
 public:
  static constexpr size_t kPiece = 1U << 20;

  explicit ContentsBuilder(SectionSink& sink);

  // Throws Error{kInternal} for bytes that do not lie past those before.
  void add(Address from, std::span<const std::byte> bytes);
  // Hands over what is left. Call it after the last bytes.
  void flush();

 private:
  void close_range();

  SectionSink& sink_;
  Section section_;
  Address range_begin_;  // of the open range
  Address closed_end_;   // of the range before it, within the section
  Address end_;          // of the last byte
};

// Gives the ranges of one section to `receive`. Throws Error{kBadInput} when they are damaged, do
// not begin at `begin`, or begin before `*end`, which is moved to their end.
void read_contents_section(std::span<const std::byte> ranges, std::span<const std::byte> bytes,
                           uint32_t count, Address begin, const std::string& source, Address* end,
                           const std::function<void(Address, std::span<const std::byte>)>& receive);

}  // namespace heapsnap
