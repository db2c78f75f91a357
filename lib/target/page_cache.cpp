#include "target/page_cache.h"

#include <algorithm>

#include "base/alteration.h"

namespace heapsnap {

// The bytes stay uninitialized: pages of the cache that are never used cost no memory.
PageCache::PageCache(MemoryReader& memory, size_t pages)
    : memory_(memory),
      mask_(pages - 1),
      pages_(pages),
      bytes_(std::make_unique_for_overwrite<std::byte[]>(pages * kPageSize)) {}

void PageCache::fetch(Page& page, Address page_begin) {
  check_end();
  std::byte* const bytes = bytes_.get() + static_cast<size_t>(&page - pages_.data()) * kPageSize;
  ++pages_read_;
  page.number = ~0ULL;  // stays so when read() throws
  page.valid = static_cast<uint32_t>(memory_.read(page_begin, {bytes, kPageSize}));
  page.number = page_begin.value() / kPageSize;
}

size_t PageCache::read(Address from, std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const Address at = from + done;
    const uint64_t offset = at.value() % kPageSize;
    const Page& page = find(at - offset);
    if (page.valid <= offset) break;
    const size_t count = std::min<size_t>(page.valid - offset, out.size() - done);
    std::memcpy(out.data() + done, bytes_of(page) + offset, count);
    done += count;
  }
  return done;
}

std::optional<uint64_t> PageCache::crossing_word(Address at, unsigned bytes) {
  uint64_t value = 0;
  if (read(at, std::as_writable_bytes(std::span(&value, 1)).first(bytes)) != bytes) {
    return std::nullopt;
  }
  return value;
}

}  // namespace heapsnap
