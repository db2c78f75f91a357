#include "tracker/text_space.h"

#include "tracker/table_space.h"

namespace heapsnap::tracker {

void* TextSpace::take(uint64_t size) {
  if (size > kChunk) return nullptr;
  if (size > end_ - next_) {
    const bool is_first = end_ == 0;
    if (!charge(kChunk)) return nullptr;
    uint64_t chunk = is_first ? first_ : 0;
    if (chunk == 0) chunk = reinterpret_cast<uint64_t>(map_table(kChunk, kRegionStrings));
    if (chunk == 0) {
      uncharge(kChunk);
      return nullptr;
    }
    if (is_first) first_ = chunk;
    charged_ += kChunk;
    next_ = chunk;
    end_ = chunk + kChunk;
  }
  const uint64_t taken = next_;
  next_ += size;
  return reinterpret_cast<void*>(taken);
}

void TextSpace::clear() {
  next_ = end_ = 0;
  uncharge(charged_);
  charged_ = 0;
}

}  // namespace heapsnap::tracker
