// Moves the addresses of a process to others that say nothing of where they were, so that all that
// lies together stays together.
//
//   was   | program |      | heap ......... |                  | libc | stack |
//   is    | program | gap | heap ......... | gap | libc | stack |
//           from 256 MiB on
//
// Ranges that touch or overlap are one piece. Pieces keep their order, their sizes, and the
// remainder of their begin by 256 KiB, by which heaps of language runtimes are known; the distances
// between them, which address space layout randomization chose, are lost. So chunks, pages,
// mappings, references and return addresses still agree, and an offset from the begin of a module
// is what it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/address.h"

namespace heapsnap {

class AddressRebase {
 public:
  // `page_size`: a power of two; pieces consist of whole pages.
  explicit AddressRebase(uint64_t page_size) : page_size_(page_size) {}

  // What is to be moved, in any order. Takes memory for what is in no piece yet.
  void add(const AddressRange& range);
  void add(Address address);  // its page; null is nobody's address
  // To be called after the last add(). Throws Error{kBadInput} when the pieces take more than half
  // of the address space.
  void lay_out();

  // Where an address that was added, or the end of such a range, is now. Null for null and for any
  // other. Ascending addresses give ascending ones.
  Address operator()(Address address) const;
  AddressRange operator()(const AddressRange& range) const;

  size_t pieces() const { return pieces_.size(); }

 private:
  struct Piece {
    Address begin;
    Address last;  // the last address, so that a piece may reach the end of the address space
    Address moved;
  };

  void merge();
  const Piece* piece_of(Address address) const;

  uint64_t page_size_;
  size_t merged_ = 0;  // of pieces_, those in order and apart from each other
  std::vector<Piece> pieces_;
};

}  // namespace heapsnap
