// Small random reads of a target, served from recently read pages.
//
// Following a list costs one read a link, and each MemoryReader::read of a live process is a system
// call. Links of one list often share pages; the cache keeps some thousand of them (direct-mapped
// by page number, so that neighbours never push each other out) and reads a page once. Where one is
// asked for after the one before it, some more are read along with it.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "target/memory_reader.h"

namespace heapsnap {

class PageCache {
 public:
  static constexpr uint64_t kPageSize = 4096;
  static constexpr size_t kDefaultPages = 2048;
  static constexpr size_t kTogether = 16;  // pages, at most

  // `memory` outlives the cache. `pages` is a power of two.
  explicit PageCache(MemoryReader& memory, size_t pages = kDefaultPages);

  // A word of the target, 4 or 8 `bytes` wide; nothing when it cannot be read.
  std::optional<uint64_t> word(Address at, unsigned bytes) {
    const uint64_t offset = at.value() % kPageSize;
    if (offset + bytes > kPageSize) return crossing_word(at, bytes);
    const Page& page = find(at - offset);
    if (offset + bytes > page.valid) return std::nullopt;
    const std::byte* const source = bytes_of(page) + offset;
    if (bytes == 4) {
      uint32_t value;
      std::memcpy(&value, source, sizeof(value));
      return value;
    }
    uint64_t value;
    std::memcpy(&value, source, sizeof(value));
    return value;
  }
  // As MemoryReader::read: the bytes before the first unreadable one.
  size_t read(Address from, std::span<std::byte> out);
  // As MemoryReader::next_readable.
  AddressRange next_readable(AddressRange range) { return memory_.next_readable(range); }
  // Pages read from the target so far.
  uint64_t pages_read() const { return pages_read_; }

 private:
  struct Page {
    uint64_t number = ~0ULL;  // address / kPageSize
    uint32_t valid = 0;       // readable bytes at its begin
  };

  const Page& find(Address page_begin) {
    const uint64_t number = page_begin.value() / kPageSize;
    Page& page = pages_[number & mask_];
    if (page.number != number) fetch(page, page_begin);
    return page;
  }
  const std::byte* bytes_of(const Page& page) const {
    return bytes_.get() + static_cast<size_t>(&page - pages_.data()) * kPageSize;
  }
  void fetch(Page& page, Address page_begin);
  std::optional<uint64_t> crossing_word(Address at, unsigned bytes);

  MemoryReader& memory_;
  uint64_t mask_;
  uint64_t next_ = 0;  // number of the page after the last one that was read
  uint64_t pages_read_ = 0;
  std::vector<Page> pages_;
  std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace heapsnap
