// A glibc heap put together byte by byte, for any MallocLayout, that remembers what it holds.
//
//   SyntheticHeap heap(Machine::kX86_64, 36);
//   auto& main = heap.brk_arena();              // [heap], sbrk_base at its begin
//   main.add(0x40, ChunkState::kUsed);
//   main.add(0x50, ChunkState::kTcache);        // in the tcache of heap.thread()
//   main.top(0x2000);
//   heap.finish();                              // lists and counters
//   ... walk_heaps(heap.target, {heap.located()}, ...) gives heap.expected
//
// Chunks are written one behind the other at a cursor. What is not used is linked into its list by
// finish(), in the order in which malloc would find it; footers and PREV_INUSE are as malloc has
// them.
#pragma once

#include <deque>
#include <map>
#include <utility>

#include "heap/chunk.h"
#include "heap/chunk_format.h"
#include "heap/discovery/malloc_discovery.h"
#include "tests/unit/heap/sparse_target.h"

namespace heapsnap {

inline constexpr uint64_t kPage = 4096;

class SyntheticHeap;

struct ExpectedChunk {
  Address at;
  uint64_t size = 0;
  ChunkState state = ChunkState::kUsed;
  bool operator==(const ExpectedChunk&) const = default;
};

class SyntheticArena {
 public:
  SyntheticArena(SyntheticHeap& heap, Address state, bool is_main)
      : heap_(heap), state_(state), is_main_(is_main) {}

  // Chunks go here from now on. The first one says that what is before it is in use.
  void go_to(Address cursor) {
    cursor_ = cursor;
    free_before_ = 0;
  }
  Address cursor() const { return cursor_; }
  Address state() const { return state_; }

  // Appends a chunk and gives its address. kSmallbin and kLargebin differ by size only.
  Address add(uint64_t size, ChunkState state);
  // What is left up to `size` bytes from the cursor is top.
  void top(uint64_t size);
  // Two fenceposts; `extra` more, as where the old top was small.
  void fence(unsigned extra = 0);
  // The last bytes of a thread heap that ends at `end`; the cursor is where they begin.
  void heap_fence(Address end);

  uint64_t system_mem = 0;
  bool is_noncontiguous = false;

 private:
  friend class SyntheticHeap;
  void header(uint64_t size, bool may_be_marked);

  SyntheticHeap& heap_;
  Address state_;
  bool is_main_;
  Address cursor_;
  uint64_t free_before_ = 0;  // size of the free chunk that ends at the cursor; 0: none
  Address top_;
  std::vector<Address> unsorted_;
  std::map<uint64_t, std::vector<Address>> fastbins_;
};

class SyntheticHeap {
 public:
  SyntheticHeap(Machine machine, int minor)
      : layout(*MallocLayout::for_version(machine, {2, minor})),
        format(layout),
        target(machine),
        is_wide_(machine != Machine::kI386),
        data_(is_wide_ ? 0x7f0000400000 : 0xf7f00000) {
    target.map(data_, 0x5000, "rw-p", "");
    main_ = &arenas_.emplace_back(*this, data_ + 0x100, true);
  }

  Address par() const { return data_ + 0x2000; }
  Address heap_begin() const { return Address(is_wide_ ? 0x555555559000 : 0x56559000); }
  // Where thread heaps go, a multiple of HEAP_MAX_SIZE.
  Address heaps_begin() const { return Address(is_wide_ ? 0x7f0010000000 : 0xf1000000); }

  SyntheticArena& main() { return *main_; }
  // Maps [heap] of `pages` and puts the main arena's cursor at its first chunk.
  SyntheticArena& brk_arena(uint64_t pages = 64) {
    target.map(heap_begin(), pages * SparseTarget::kPage, "rw-p", "[heap]");
    sbrk_base = heap_begin();
    main_->go_to(format.align_up(heap_begin()));
    return *main_;
  }
  // Maps a first heap of `pages` at `begin` with a new arena in it.
  SyntheticArena& thread_arena(Address begin, uint64_t pages) {
    const Address state = begin + layout.heap_info.total;
    add_thread_heap(begin, Address(), pages, state);
    SyntheticArena& arena = arenas_.emplace_back(*this, state, false);
    arena.go_to(format.align_up(state + layout.state.size));
    arena.system_mem = pages * SparseTarget::kPage;
    return arena;
  }
  // One more heap of `arena`, and the cursor into it.
  void more_heap(SyntheticArena& arena, Address begin, Address previous, uint64_t pages) {
    add_thread_heap(begin, previous, pages, arena.state());
    arena.go_to(format.align_up(begin + layout.heap_info.total));
    arena.system_mem += pages * SparseTarget::kPage;
  }
  // A tcache in a used chunk at the arena's cursor; chunks in state kTcache go to it from now on.
  void thread(SyntheticArena& arena, int tid, bool has_registers = true) {
    const Address chunk = arena.add(layout.tcache_chunk_size(), ChunkState::kUsed);
    tcaches_.push_back({tid, chunk + format.header, arena.state(), has_registers, {}});
  }
  // A thread that never allocated; its storage holds something else.
  void idle_thread(int tid) {
    const Address thread_pointer = data_ + 0x4800;
    target.put_word(thread_pointer - kTlsOffset, 1);
    target.add_thread(tid, Registers{Address(), Address(), thread_pointer});
  }
  // An mmapped chunk of `total` bytes whose header is `offset` into the mapping at `begin`.
  Address mmapped(Address begin, uint64_t total, uint64_t offset = ~0ULL) {
    if (offset == ~0ULL) offset = format.align_up(begin) - begin;
    put_mmapped_header(begin, total, offset);
    expected_mmapped.push_back(begin + offset);
    ++n_mmaps;
    mmapped_mem += total;
    return begin + offset;
  }
  // The header alone, which nobody counts.
  void put_mmapped_header(Address begin, uint64_t total, uint64_t offset) {
    const uint64_t behind = layout.mmapped_size_less_header ? format.header : 0;
    target.put_word(begin + offset, offset);
    target.put_word(begin + offset + format.word,
                    (total - offset - behind) | ChunkFormat::kMmapped);
  }
  // A chunk in no arena (mmapped, 2.43 and later) that goes to the last thread's tcache.
  void cache(Address chunk, unsigned bin) { tcaches_.back().bins[bin].push_back(chunk); }

  // Writes bins, tcaches, counters and the ring of arenas.
  void finish();
  LocatedMalloc located() const;

  MallocLayout layout;
  ChunkFormat format;
  SparseTarget target;
  std::vector<ExpectedChunk> expected;    // in the order of writing
  std::vector<Address> expected_mmapped;  // headers
  Address sbrk_base;
  uint64_t n_mmaps = 0;
  uint64_t mmapped_mem = 0;
  uint64_t tcache_count = 7;

 private:
  friend class SyntheticArena;
  struct Tcache {
    int tid = 0;
    Address at;
    Address arena;
    bool has_registers = true;
    std::map<unsigned, std::vector<Address>> bins;
  };
  static constexpr uint64_t kTlsOffset = 0x40;  // below the thread pointer

  void add_thread_heap(Address begin, Address previous, uint64_t pages, Address state) {
    target.map(begin, pages * SparseTarget::kPage);
    target.map(begin + pages * SparseTarget::kPage,
               layout.heap_max_size - pages * SparseTarget::kPage, "---p");
    target.put_word(begin + layout.heap_info.ar_ptr, state.value());
    target.put_word(begin + layout.heap_info.prev, previous.value());
    target.put_word(begin + layout.heap_info.size, pages * SparseTarget::kPage);
    // mprotect_size
    target.put_word(begin + layout.heap_info.size + layout.word, pages * SparseTarget::kPage);
  }
  uint64_t protect(Address at, Address pointer) const {
    return pointer.value() ^ (layout.safe_linking ? at.value() >> 12 : 0);
  }
  void write_arena(const SyntheticArena& arena, Address next);
  void write_tcache(const Tcache& tcache, Address thread_pointer);

  bool is_wide_;
  Address data_;  // of libc: the main arena, mp_, and the threads' storage
  std::deque<SyntheticArena> arenas_;
  SyntheticArena* main_ = nullptr;
  std::vector<Tcache> tcaches_;
};

inline void SyntheticArena::header(uint64_t size, bool may_be_marked) {
  SparseTarget& target = heap_.target;
  if (free_before_ != 0) target.put_word(cursor_, free_before_);
  uint64_t flags = free_before_ == 0 ? ChunkFormat::kPreviousInUse : 0;
  if (!is_main_ && may_be_marked) flags |= ChunkFormat::kNonMainArena;
  target.put_word(cursor_ + heap_.format.word, size | flags);
}

inline Address SyntheticArena::add(uint64_t size, ChunkState state) {
  const bool is_binned = state == ChunkState::kUnsorted || state == ChunkState::kSmallbin ||
                         state == ChunkState::kLargebin;
  header(size, !is_binned);
  const Address chunk = cursor_;
  heap_.expected.push_back({chunk, size, state});
  cursor_ += size;
  free_before_ = is_binned ? size : 0;
  if (is_binned) heap_.target.put_word(cursor_, size);
  if (state == ChunkState::kUnsorted) unsorted_.push_back(chunk);
  if (state == ChunkState::kFastbin) fastbins_[size].push_back(chunk);
  if (state == ChunkState::kTcache) {
    const auto bin = static_cast<unsigned>((size - heap_.format.min_size) / heap_.format.alignment);
    heap_.cache(chunk, bin);
  }
  return chunk;
}

inline void SyntheticArena::top(uint64_t size) {
  header(size, false);
  top_ = cursor_;
  heap_.expected.push_back({cursor_, size, ChunkState::kTop});
  cursor_ += size;
}

inline void SyntheticArena::fence(unsigned extra) {
  for (unsigned post = 0; post < 2 + extra; ++post) {
    header(heap_.format.header, false);
    free_before_ = 0;
    heap_.expected.push_back({cursor_, heap_.format.header, ChunkState::kFence});
    cursor_ += heap_.format.header;
  }
}

inline void SyntheticArena::heap_fence(Address end) {
  header(heap_.format.header, false);
  free_before_ = 0;
  heap_.expected.push_back({cursor_, heap_.format.header, ChunkState::kFence});
  cursor_ += heap_.format.header;
  header(0, false);
  heap_.expected.push_back({cursor_, end - cursor_, ChunkState::kFence});
  cursor_ = end;
}

inline void SyntheticHeap::write_arena(const SyntheticArena& arena, Address next) {
  const auto& state = layout.state;
  const unsigned word = layout.word;
  const Address at = arena.state_;
  const uint32_t flags = arena.is_noncontiguous || !arena.is_main_ ? 2 : 0;
  target.put_bytes(at + 4, std::as_bytes(std::span(&flags, 1)));
  const Address bins = at + state.bins;
  const Address first_bin = bins - format.header;
  for (unsigned bin = 0; bin < 127; ++bin) {
    for (unsigned i = 0; i < 2; ++i) {
      target.put_word(bins + (2 * bin + i) * word, (first_bin + 2 * bin * word).value());
    }
  }
  Address previous = first_bin;
  for (const Address chunk : arena.unsorted_) {
    target.put_word(previous + format.header, chunk.value());
    target.put_word(chunk + format.header + word, previous.value());
    previous = chunk;
  }
  target.put_word(previous + format.header, first_bin.value());
  target.put_word(first_bin + format.header + word, previous.value());
  for (const auto& [size, chunks] : arena.fastbins_) {
    target.put_word(at + state.fastbins + (size / format.header - 2) * word, chunks[0].value());
    for (size_t i = 0; i < chunks.size(); ++i) {
      const Address link = chunks[i] + format.header;
      const Address after = i + 1 < chunks.size() ? chunks[i + 1] : Address();
      target.put_word(link, protect(link, after));
    }
  }
  target.put_word(at + state.top, (arena.top_.is_null() ? first_bin : arena.top_).value());
  target.put_word(at + state.next, next.value());
  target.put_word(at + state.system_mem, arena.system_mem);
  target.put_word(at + state.max_system_mem, arena.system_mem);
}

inline void SyntheticHeap::write_tcache(const Tcache& tcache, Address thread_pointer) {
  const auto& lay = layout.tcache;
  for (unsigned bin = 0; bin < lay.bins; ++bin) {
    const auto found = tcache.bins.find(bin);
    const uint64_t count = found == tcache.bins.end() ? 0 : found->second.size();
    const uint64_t stored = lay.counts_down ? tcache_count - count : count;
    target.put_bytes(tcache.at + bin * lay.count_size,
                     std::as_bytes(std::span(&stored, 1)).first(lay.count_size));
    Address from = tcache.at + lay.entries + bin * layout.word;
    for (uint64_t i = 0; i < count; ++i) {
      const Address memory = found->second[i] + format.header;
      target.put_word(from, i == 0 ? memory.value() : protect(from, memory));
      from = memory;
    }
    target.put_word(from, count == 0 ? 0 : protect(from, Address()));
  }
  target.put_word(thread_pointer - kTlsOffset, tcache.at.value());
  target.put_word(thread_pointer - kTlsOffset + layout.word, tcache.arena.value());
}

inline void SyntheticHeap::finish() {
  for (size_t i = 0; i < arenas_.size(); ++i) {
    write_arena(arenas_[i], arenas_[(i + 1) % arenas_.size()].state_);
  }
  for (size_t i = 0; i < tcaches_.size(); ++i) {
    const Address thread_pointer = data_ + 0x3000 + (i + 1) * 0x80;
    write_tcache(tcaches_[i], thread_pointer);
    std::optional<Registers> registers;
    if (tcaches_[i].has_registers) registers = Registers{Address(), Address(), thread_pointer};
    target.add_thread(tcaches_[i].tid, registers);
  }
  target.put_word(par() + layout.par.sbrk_base, sbrk_base.value());
}

inline LocatedMalloc SyntheticHeap::located() const {
  LocatedMalloc located;
  located.instance.main_arena = main_->state_;
  located.instance.malloc_par = par();
  located.instance.n_mmaps = n_mmaps;
  located.instance.mmapped_mem = mmapped_mem;
  located.instance.tcache_count = tcache_count;
  located.layout = layout;
  located.tls_offset = -static_cast<int64_t>(kTlsOffset);
  located.tls_size = 2 * layout.word;
  return located;
}

}  // namespace heapsnap
