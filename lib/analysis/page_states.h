// The states of pages as a table that can be looked up by address, in bounded memory.
//
//   0          covered().begin                        covered().end                2^64
//   | outside  | unknown | resident | absent | resident | outside                    |
//
// A table covers the address space from `from` on until it is full; a process whose pages need more
// is read again with a table that goes on there. Addresses outside say so, so that adding up over
// all tables counts every byte once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/page_bytes.h"
#include "analysis/snapshot_streams.h"
#include "base/address.h"

namespace heapsnap {

class PageStates {
 public:
  static constexpr size_t kMaxRuns = size_t{4} << 20;  // 32 MiB

  // Reads the runs from `from` on.
  PageStates(const SnapshotStreams& streams, Address from, size_t max_runs = kMaxRuns);

  AddressRange covered() const { return covered_; }
  // Whether nothing is left for another table.
  bool is_last() const { return covered_.end == Address(UINT64_MAX); }
  bool knows_a_state() const { return knows_a_state_; }

  // A stretch of addresses in one state. `column` is a PageState, or kOutside.
  static constexpr unsigned kOutside = 7;
  static constexpr unsigned kColumns = 8;
  struct Piece {
    AddressRange range;
    unsigned column = kOutside;
  };

  // Finds pieces; fast when asked in ascending order, right in any.
  class Cursor {
   public:
    explicit Cursor(const PageStates& map) : map_(&map) {}
    Piece at(Address address);
    // Where the bytes of `range` are; those outside of the table are left out.
    PageBytes bytes_in(AddressRange range);

   private:
    const PageStates* map_;
    size_t index_ = 0;
  };

 private:
  // Begin of a piece (page aligned, so the low bits are free) | its column. The first begins at 0.
  static constexpr uint64_t kColumnMask = 7;
  void append(Address begin, unsigned column);
  Piece piece(size_t index) const;

  std::vector<uint64_t> entries_;
  AddressRange covered_;
  bool knows_a_state_ = false;
};

}  // namespace heapsnap
