// The memory of a server, as its contexts need it: words, structures, and what can hold a block.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heap/corruption_log.h"
#include "runtime/runtime_model.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

class PostgresMemory {
 public:
  // `target` outlives it.
  explicit PostgresMemory(Target& target)
      : space_(target.address_space()), cache_(target.memory()) {}

  PageCache& cache() { return cache_; }
  std::optional<uint64_t> word(Address at) { return cache_.word(at, 8); }
  // The bytes of a structure, until the next call; none where not all can be read.
  std::span<const std::byte> structure(Address at, uint64_t size) {
    buffer_.resize(size);
    return cache_.read(at, buffer_) == size ? std::span<const std::byte>(buffer_)
                                            : std::span<const std::byte>();
  }
  // Whether a block of this size may be at `at`: all of it is private and writable.
  bool is_writable(Address at, uint64_t bytes) {
    if (!at.is_aligned(8) || bytes == 0) return false;
    if (!run_.contains(at, bytes)) run_ = space_.writable_run(at);
    return run_.contains(at, bytes);
  }

 private:
  const AddressSpace& space_;
  PageCache cache_;
  AddressRange run_;  // neighbours lead to neighbours
  std::vector<std::byte> buffer_;
};

// What does not fit first becomes a context's problem. Gives false.
inline bool tell_problem(RuntimeContext& context, const char* what, Address where) {
  if (context.problem.empty()) context.problem = std::string(what) + " " + hex(where);
  return false;
}

}  // namespace heapsnap
