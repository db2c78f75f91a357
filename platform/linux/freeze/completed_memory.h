// Memory of a copy, completed with what the copy does not show.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "platform/linux/freeze/missing_memory.h"

namespace heapsnap {

class CompletedMemory final : public MemoryReader {
 public:
  // `missing` outlives this.
  CompletedMemory(std::unique_ptr<MemoryReader> copy, const MissingMemory& missing)
      : copy_(std::move(copy)), missing_(missing) {}

  // Throws as the reader of the copy does.
  size_t read(Address from, std::span<std::byte> out) override {
    size_t count = 0;
    while (count < out.size()) {
      const Address at = from + count;
      const bool is_missing = missing_.holds(at);
      std::span<std::byte> part = out.subspan(count);
      if (!is_missing) {
        part = part.first(std::min<uint64_t>(part.size(), missing_.next_begin(at) - at));
      }
      const size_t got = is_missing ? missing_.read(at, part) : copy_->read(at, part);
      count += got;
      if (got == 0 || (!is_missing && got < part.size())) break;
    }
    return count;
  }

 private:
  std::unique_ptr<MemoryReader> copy_;
  const MissingMemory& missing_;
};

}  // namespace heapsnap
