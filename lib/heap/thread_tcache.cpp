#include "heap/thread_tcache.h"

#include <algorithm>

#include "heap/chunk_format.h"
#include "heap/struct_bytes.h"

namespace heapsnap {

namespace {

bool has_tcache_size(MemoryReader& memory, const MallocLayout& layout, Address tcache) {
  if (!layout.tcache.exists || !tcache.is_aligned(layout.malloc_alignment)) return false;
  const auto size_field = read_word(memory, tcache - layout.word, layout.word);
  if (!size_field) return false;
  const uint64_t size = *size_field & ~ChunkFormat::kFlags;
  const uint64_t expected = layout.tcache_chunk_size();
  return size >= expected && size <= expected + ChunkFormat(layout).min_size;
}

// Whether heads of lists are where malloc's pointers can be, and lists are empty where their counts
// say so. A thread that runs on, or a damaged heap, may have some bins in between.
bool bins_are_possible(const StructBytes& counts, const StructBytes& heads,
                       const MallocLayout& layout) {
  const auto& tcache = layout.tcache;
  const ChunkFormat format(layout);
  const unsigned tolerable = tcache.bins / 8;
  unsigned bad = 0;
  for (unsigned bin = 0; bin < tcache.bins; ++bin) {
    const Address head = format.pointer(heads.word_at(uint64_t{bin} * layout.word));
    const bool has_none = counts.is_zero_at(uint64_t{bin} * tcache.count_size, tcache.count_size);
    const bool is_wrong = !tcache.counts_down && has_none != head.is_null();
    if (is_wrong || !head.is_aligned(layout.malloc_alignment)) ++bad;
  }
  return bad <= tolerable;
}

class ThreadStorage {
 public:
  ThreadStorage(Target& target, const LocatedMalloc& malloc, std::span<const Address> arenas)
      : space_(target.address_space()),
        memory_(target.memory()),
        malloc_(malloc),
        format_(malloc.layout),
        arenas_(arenas) {}

  ThreadAllocator find(const Thread& thread) {
    ThreadAllocator found;
    found.tid = thread.tid;
    read_block(thread);
    found.storage_is_lost = std::all_of(bytes_.begin(), bytes_.end(),
                                        [](std::byte byte) { return byte == std::byte{0}; });
    found.tcache = find_word(malloc_.tcache_in_tls, last_tcache_, [this](Address value) {
      return is_writable(value) && is_tcache(memory_, malloc_.layout, value);
    });
    if (!found.tcache.is_null()) place_is_known_ = true;
    found.arena = find_word(malloc_.thread_arena_in_tls, last_arena_, [this](Address value) {
      return std::find(arenas_.begin(), arenas_.end(), value) != arenas_.end();
    });
    return found;
  }

  // What the word for the tcache of a thread without one names, if that can only be a damaged one.
  // Its place is known when find() was called for all threads.
  Address damaged_tcache(const Thread& thread) {
    if (!malloc_.tcache_in_tls && !place_is_known_) return {};
    read_block(thread);
    const StructBytes block(bytes_, malloc_.layout.word);
    const Address value =
        format_.pointer(block.word_at(malloc_.tcache_in_tls.value_or(last_tcache_)));
    if (value.is_null() || !is_writable(value)) return {};
    return has_tcache_size(memory_, malloc_.layout, value) ? value : Address();
  }

 private:
  void read_block(const Thread& thread) {
    const Address block =
        thread.registers->thread_pointer + static_cast<uint64_t>(*malloc_.tls_offset);
    bytes_.resize(malloc_.tls_size);
    bytes_.resize(memory_.read(block, bytes_));
  }

  // The word that `is_it`: at `place` where that is known, else where the last thread had it, else
  // the first of the block.
  template <typename Predicate>
  Address find_word(std::optional<uint64_t> place, uint64_t& last, Predicate is_it) {
    const unsigned word = malloc_.layout.word;
    const StructBytes block(bytes_, word);
    const auto accepted_at = [&](uint64_t offset) {
      const Address value = format_.pointer(block.word_at(offset));
      return !value.is_null() && is_it(value) ? value : Address();
    };
    if (place) return accepted_at(*place);
    if (const Address value = accepted_at(last); !value.is_null()) return value;
    for (uint64_t offset = 0; offset + word <= bytes_.size(); offset += word) {
      const Address value = accepted_at(offset);
      if (value.is_null()) continue;
      last = offset;
      return value;
    }
    return {};
  }

  bool is_writable(Address address) const {
    const Mapping* mapping = space_.find(address);
    return mapping != nullptr && mapping->is_private_writable();
  }

  const AddressSpace& space_;
  MemoryReader& memory_;
  const LocatedMalloc& malloc_;
  ChunkFormat format_;
  std::span<const Address> arenas_;
  bool place_is_known_ = false;  // last_tcache_ is where a thread had its tcache
  uint64_t last_tcache_ = 0;
  uint64_t last_arena_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace

bool is_tcache(MemoryReader& memory, const MallocLayout& layout, Address tcache) {
  if (!has_tcache_size(memory, layout, tcache)) return false;
  std::vector<std::byte> bytes(layout.tcache.size);
  if (!memory.read_exact(tcache, bytes)) return false;
  const std::span<const std::byte> all = bytes;
  const uint64_t count_bytes = uint64_t{layout.tcache.bins} * layout.tcache.count_size;
  const uint64_t entry_bytes = uint64_t{layout.tcache.bins} * layout.word;
  if (!fits_within(0, count_bytes, all.size()) ||
      !fits_within(layout.tcache.entries, entry_bytes, all.size())) {
    return false;
  }
  return bins_are_possible({all.first(count_bytes), layout.word},
                           {all.subspan(layout.tcache.entries, entry_bytes), layout.word}, layout);
}

std::vector<ThreadAllocator> find_thread_allocators(Target& target, const LocatedMalloc& malloc,
                                                    std::span<const Address> arenas) {
  std::vector<ThreadAllocator> found;
  if (!malloc.tls_offset || malloc.tls_size == 0) return found;
  ThreadStorage storage(target, malloc, arenas);
  for (const Thread& thread : target.threads()) {
    if (thread.registers) found.push_back(storage.find(thread));
  }
  size_t next = 0;
  for (const Thread& thread : target.threads()) {
    if (!thread.registers) continue;
    ThreadAllocator& allocator = found[next++];
    if (allocator.tcache.is_null() && !allocator.storage_is_lost) {
      allocator.damaged_tcache = storage.damaged_tcache(thread);
    }
  }
  return found;
}

}  // namespace heapsnap
