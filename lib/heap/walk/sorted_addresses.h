// Chunks on the free lists, in ascending order of address, in bounded memory.
//
// Lists hold chunks in any order and there can be a hundred million of them. They are collected as
// words `address | state` (chunks are at least 8-aligned, so a state of up to 7 fits the low bits);
// a full buffer is sorted and written to an unlinked temporary file as a run, and a Cursor merges
// all runs:
//
//   add() ──► [ buffer ] ──full──► sort ──► file: | run 0 | run 1 | ... |
//                  └─────────finish()────────┐        │ 64 KiB of each
//                                            └──► merge ──► Cursor ──► ascending words
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/address.h"
#include "base/unique_fd.h"
#include "heap/chunk.h"

namespace heapsnap {

class SortedAddresses {
 public:
  static constexpr size_t kDefaultBuffer = 1 << 19;  // words, 4 MiB
  static constexpr uint64_t kStateBits = 7;

  // `buffer`: words kept in memory before a run is spilled. Where no temporary file can be written
  // ($TMPDIR, /var/tmp, /tmp), the buffer grows instead.
  explicit SortedAddresses(size_t buffer = kDefaultBuffer);
  SortedAddresses(const SortedAddresses&) = delete;
  SortedAddresses& operator=(const SortedAddresses&) = delete;

  // `chunk` is 8-aligned; `state` is kTcache, kFastbin or kUnsorted.
  void add(Address chunk, ChunkState state) {
    if (buffer_.size() == limit_) spill();
    buffer_.push_back(chunk.value() | static_cast<uint64_t>(state));
    ++size_;
  }
  // Nothing is added after this; cursors work from here on.
  void finish();
  uint64_t size() const { return size_; }

  // A walk over all words; equal words come as often as they were added. Any number of cursors may
  // be used one after the other or at once; the SortedAddresses outlives them.
  class Cursor {
   public:
    explicit Cursor(const SortedAddresses& sorted);

    bool at_end() const { return block_ == block_end_; }
    // Of the word under the cursor; not at the end.
    Address address() const { return Address(*block_ & ~kStateBits); }
    ChunkState state() const { return static_cast<ChunkState>(*block_ & kStateBits); }
    void next() {
      if (++block_ == block_end_) merge_more();
    }

   private:
    struct RunReader;
    void merge_more();
    bool refill(RunReader& run);

    const SortedAddresses* sorted_;
    const uint64_t* block_ = nullptr;  // words ready, ascending
    const uint64_t* block_end_ = nullptr;
    std::vector<uint64_t> merged_;
    std::vector<RunReader> heap_;  // of runs by their smallest word; empty without spilled runs

   public:
    ~Cursor();
    Cursor(Cursor&&) noexcept;
    Cursor& operator=(Cursor&&) noexcept;
  };

 private:
  struct Run {
    uint64_t offset = 0;  // in the file, bytes
    uint64_t words = 0;
  };
  void spill();

  size_t limit_;
  uint64_t size_ = 0;
  std::vector<uint64_t> buffer_;
  std::vector<uint64_t> scratch_;  // of the sort
  UniqueFd file_;
  uint64_t file_size_ = 0;
  std::vector<Run> runs_;
};

}  // namespace heapsnap
