// Memory of the tables for bytes that stay: paths, names. It grows by chunks and only ever ends as
// a whole.
#pragma once

#include <cstdint>

namespace heapsnap::tracker {

class TextSpace {
 public:
  static constexpr uint64_t kChunk = 65536;

  // Room for so many bytes, kChunk at most; null when there is none. Callers serialize.
  void* take(uint64_t size);
  // To be called when the tables have been given back, or are about to be.
  void clear();

 private:
  uint64_t next_ = 0;
  uint64_t end_ = 0;
  uint64_t charged_ = 0;
  uint64_t first_ = 0;  // the first chunk, which is used again after clear()
};

}  // namespace heapsnap::tracker
