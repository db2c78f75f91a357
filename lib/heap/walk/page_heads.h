// Reads the first bytes of every page of a range, where a mapping made by malloc has its header.
//
// Pages that were never touched hold no header and are not read. Pieces of many pages are asked for
// at once (MemoryReader::read_pieces), more of them the longer a range goes on without a find.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/address.h"
#include "target/target.h"

namespace heapsnap {

class PageHeads {
 public:
  // prev_size and size of a chunk at the page's begin; on i386 it may begin 8 bytes later.
  static constexpr size_t kHead = 16;
  static constexpr uint64_t kMostLooks = 64 << 20;
  using Head = std::span<const std::byte, kHead>;
  // Gives where to go on: the next page, or further up behind something that was recognized.
  using Visit = std::function<Address(Address page, Head head)>;

  explicit PageHeads(Target& target);

  // Visits the pages of `range` in ascending order, as far as they can be read; kMostLooks pages
  // in all, absent ones too, which takes about a second: a process may reserve 16 TiB and more.
  void scan(AddressRange range, const Visit& visit);
  // Only the page at `page`; nothing when it cannot be read.
  std::optional<std::array<std::byte, kHead>> at(Address page);

 private:
  static constexpr size_t kMostPages = 1024;

  MemoryReader& memory_;
  PageResidency& residency_;
  uint64_t page_size_;
  uint64_t pages_left_ = kMostLooks;
  std::vector<PageState> states_;
  std::vector<Address> places_;
  std::vector<std::byte> heads_;
};

}  // namespace heapsnap
