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
  const auto slot = static_cast<size_t>(&page - pages_.data());
  const uint64_t number = page_begin.value() / kPageSize;
  const size_t wanted = number == next_ ? kTogether - slot % kTogether : 1;
  const size_t count = std::min(wanted, pages_.size() - slot);
  const std::span<Page> pages = std::span(pages_).subspan(slot, count);
  for (Page& each : pages) each.number = ~0ULL;  // stays so when read() throws
  size_t got = memory_.read(page_begin, {bytes_.get() + slot * kPageSize, count * kPageSize});
  pages_read_ += std::max<size_t>(got / kPageSize, 1);
  // Of those past one that cannot be read whole, nothing is known.
  for (size_t i = 0; i < count && (i == 0 || got != 0); ++i) {
    pages[i].valid = static_cast<uint32_t>(std::min<size_t>(got, kPageSize));
    pages[i].number = number + i;
    got -= pages[i].valid;
  }
  next_ = number + count;
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
